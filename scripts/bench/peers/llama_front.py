"""llama.cpp's own HTTP server, out of the wheel `xllamacpp`. Runs in that peer's virtual environment."""

import argparse
import signal
import threading

import xllamacpp


def parameters(arguments: argparse.Namespace) -> xllamacpp.CommonParams:
    params = xllamacpp.CommonParams()
    params.model.path = arguments.model_path
    params.port = arguments.port
    params.n_parallel = arguments.slots
    params.n_ctx = arguments.context * arguments.slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = arguments.threads
    params.cont_batching = True
    params.endpoint_metrics = True
    return params


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--context", type=int, default=2048, help="tokens of each slot")
    server = xllamacpp.Server(parameters(parser.parse_args()))
    print(f"ready at {server.listening_address}", flush=True)
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    over.wait()


if __name__ == "__main__":
    main()
