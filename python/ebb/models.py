# SPDX-License-Identifier: MIT
"""Whole models, in the formats that others write them in.

    model = ebb.models.load_llama("Llama-3.2-1B")        # a folder of Hugging Face's transformers
    loss = ebb.nn.cast_parameters(model, ebb.bf16).loss(tokens, following)
    optimizer.step(model, ebb.backward(loss))
    ebb.models.save_llama("finetuned", model)
"""

from ._core._models import Llama, load_llama, load_llama_config, save_llama  # noqa: F401
