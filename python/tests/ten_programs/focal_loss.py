# SPDX-License-Identifier: MIT
"""A loss of one's own, checked against finite differences and against cross_entropy."""

import ebb
import ebb.nn.functional as F
ebb.manual_seed(0)
def focal_loss(logits, target, gamma=2.0):
    log_p = F.log_softmax(logits, dim=1)
    log_pt = log_p.gather(1, target.unsqueeze(1)).squeeze(1)
    return (-(1 - log_pt.exp()) ** gamma * log_pt).mean()
logits = ebb.randn(5, 4, dtype=ebb.float64, requires_grad=True)
target = ebb.randint(0, 4, (5,))
assert ebb.gradcheck.check_gradients(lambda z: focal_loss(z, target), [logits])
assert ebb.allclose(focal_loss(logits, target, 0.0), F.cross_entropy(logits, target))
loss = focal_loss(logits, target)
assert ebb.backward(loss)[logits].shape == logits.shape
