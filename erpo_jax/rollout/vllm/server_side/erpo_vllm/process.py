"""vLLM in one process, spoken to over pipes: `python -m erpo_vllm.process '{"model": ...}'`, one JSON object a line.

For small models and tests: up in a few seconds where the HTTP server with its three processes takes half a minute.

    in   {"id": 7, "call": "generate", "token_ids": [...], "sampling_params": {...}}    out  {"id": 7, "choices": [...]}
    in   {"id": 8, "call": "load", "folder": ..., "version": 3}                         out  {"id": 8, "results": [...]}

An answer with "error" says why there is nothing else. What libraries print goes to stderr. The argument holds vLLM's
engine arguments. The end of stdin ends the process.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import Any, TextIO


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asked: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(asked,), name="end-with-parent", daemon=True).start()
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    engine = LLMEngine.from_engine_args(EngineArgs(**json.loads(sys.argv[1])))
    _say(out, {"id": 0})
    while True:
        busy = engine.has_unfinished_requests()
        try:
            while True:
                request = asked.get(block=not busy)
                answer = _begin(engine, request)
                if answer is not None:
                    _say(out, {"id": request["id"], **answer})
                busy = engine.has_unfinished_requests()
        except queue.Empty:
            pass
        for output in engine.step():
            if output.finished:
                _say(out, {"id": int(output.request_id), "choices": [_choice(c) for c in output.outputs]})


def _listen(asked: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        asked.put(json.loads(line))
    os._exit(0)


def _say(out: TextIO, answer: dict[str, Any]) -> None:
    out.write(json.dumps(answer) + "\n")
    out.flush()


def _begin(engine: Any, request: dict[str, Any]) -> dict[str, Any] | None:
    """The answer of a call that ends at once; None for a generation, which is answered when it ends."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    try:
        if request["call"] == "generate":
            sampling = SamplingParams(**request["sampling_params"], output_kind=RequestOutputKind.FINAL_ONLY)
            engine.add_request(str(request["id"]), {"prompt_token_ids": request["token_ids"]}, sampling)
            return None
        arguments = {"folder": request["folder"], "version": request["version"]}
        results = engine.collective_rpc("erpo_refresh", kwargs=arguments)
        if not engine.reset_prefix_cache(reset_running_requests=True):
            return {"error": "the prefix cache could not be reset"}
        if not any("error" in result for result in results):
            engine.set_weight_version(str(request["version"]))
        return {"results": results}
    except (ValueError, TypeError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _choice(completion: Any) -> dict[str, Any]:
    """In the words of the HTTP server's answer."""
    tokens = list(completion.token_ids)
    chosen = [{"logprob": logprobs[token].logprob} for token, logprobs in zip(tokens, completion.logprobs, strict=True)]
    return {
        "token_ids": tokens,
        "logprobs": {"content": chosen},
        "finish_reason": completion.finish_reason,
        "weight_versions": [{"version": span.version} for span in completion.weight_versions or []],
    }


if __name__ == "__main__":
    main()
