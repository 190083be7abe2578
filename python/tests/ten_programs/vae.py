# SPDX-License-Identifier: MIT
"""A variational autoencoder."""

import ebb
import ebb.nn as nn
import ebb.nn.functional as F
ebb.manual_seed(0)
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))
        self.decoder = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 20))
    def forward(self, x):
        mu, logvar = self.encoder(x).chunk(2, dim=1)
        z = mu + ebb.exp(0.5 * logvar) * ebb.randn_like(mu)
        return self.decoder(z), mu, logvar
def loss_of(model, x):
    out, mu, logvar = model(x)
    reconstruction = F.binary_cross_entropy_with_logits(out, x, reduction="sum")
    kl = -0.5 * ebb.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (reconstruction + kl) / x.size(0)
x = (ebb.randint(0, 2, (256, 1)) == (ebb.arange(20) % 2)).float()
model = VAE().to("cpu")
optimizer = ebb.optim.Adam(lr=1e-2)
first = loss_of(model, x).item()
for _ in range(100):
    loss = loss_of(model, x)
    optimizer.step(model, ebb.backward(loss))
assert loss.item() < 0.5 * first, (first, loss)
