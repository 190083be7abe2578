# SPDX-License-Identifier: MIT
"""torch.nn.MultiheadAttention, with its arguments, defaults and results."""

from .. import _core, compat
from .._core import _init as init
from .._core import _nn


def make(Module, Parameter):
    """The class. nn/__init__.py, which has Module, calls this: the two modules need not import each other."""

    class MultiheadAttention(Module):
        """torch.nn.MultiheadAttention: (output, weights) of queries, keys and values [time, batch, width].

        batch_first puts the batch first; without a batch they are [time, width]. A bool attn_mask [time, keys] or
        [batch·heads, time, keys] and a key_padding_mask [batch, keys] are true where a query must not look. Without
        need_weights the scores are never in memory and the second result is None.
        """

        def __init__(
            self,
            embed_dim,
            num_heads,
            dropout=0.0,
            bias=True,
            add_bias_kv=False,
            add_zero_attn=False,
            kdim=None,
            vdim=None,
            batch_first=False,
            device=None,
            dtype=None,
        ):
            if embed_dim % num_heads:
                raise ValueError(f"MultiheadAttention: a width of {embed_dim} is not divisible by {num_heads} heads")
            dtype = dtype or _core.f32
            self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
            self.add_zero_attn = add_zero_attn
            widths = (embed_dim, embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim)

            def uniform(*shape):
                return Parameter(init.xavier_uniform(shape, dtype=dtype))

            same = widths == (embed_dim,) * 3
            self.in_proj_weight = uniform(3 * embed_dim, embed_dim) if same else None
            separate = (None,) * 3 if same else [uniform(embed_dim, width) for width in widths]
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight = separate
            self.in_proj_bias = Parameter(_core.zeros((3 * embed_dim,), dtype)) if bias else None
            self.out_proj = _nn.Linear(embed_dim, embed_dim, bias, dtype=dtype)
            if bias:
                self.out_proj._assign("bias", Parameter(_core.zeros((embed_dim,), dtype)))
            normal = [Parameter(init.xavier_normal((1, 1, embed_dim), dtype=dtype)) for _ in range(2 * add_bias_kv)]
            self.bias_k, self.bias_v = normal or (None, None)
            if device is not None:
                self.to(device)

        def forward(
            self,
            query,
            key=None,
            value=None,
            key_padding_mask=None,
            need_weights=True,
            attn_mask=None,
            average_attn_weights=True,
            is_causal=False,
        ):
            """(output, weights); key and value are the query unless they are given."""
            key = query if key is None else key
            value = key if value is None else value
            turned = self.batch_first and query.ndim == 3
            if turned:
                query, key, value = (x.transpose(0, 1) for x in (query, key, value))
            bias = self.out_proj.bias if self.in_proj_bias is not None else None
            y, weights = compat.multi_head_attention_forward(
                query,
                key,
                value,
                self.embed_dim,
                self.num_heads,
                self.in_proj_weight,
                self.in_proj_bias,
                self.bias_k,
                self.bias_v,
                self.add_zero_attn,
                self.dropout,
                self.out_proj.weight,
                bias,
                training=self.training,
                key_padding_mask=key_padding_mask,
                need_weights=need_weights,
                attn_mask=attn_mask,
                use_separate_proj_weight=self.in_proj_weight is None,
                q_proj_weight=self.q_proj_weight,
                k_proj_weight=self.k_proj_weight,
                v_proj_weight=self.v_proj_weight,
                average_attn_weights=average_attn_weights,
                is_causal=is_causal,
            )
            return (y.transpose(0, 1) if turned else y), weights

        def extra_repr(self):
            """The arguments, for repr()."""
            return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, batch_first={self.batch_first}"

    MultiheadAttention.__module__, MultiheadAttention.__qualname__ = "ebb.nn", "MultiheadAttention"
    return MultiheadAttention
