# SPDX-License-Identifier: MIT
"""ebb.__config__: what was found on the machine."""

import ebb


def test_names_the_processor_and_what_is_missing(capsys):
    config = ebb.__config__
    assert config.version == ebb.__version__
    assert config.found["SIMD"] and config.found["threads"] == str(ebb.num_threads())
    assert not set(config.found) & set(config.missing)
    assert {"NVIDIA driver", "GPU", "NVRTC", "cuBLASLt", "NCCL", "MPI"} <= set(config.found) | set(config.missing)
    assert all(config.missing.values())
    config.show()
    out = capsys.readouterr().out
    assert out.startswith(f"ebb {ebb.__version__}\n") and config.found["SIMD"] in out
