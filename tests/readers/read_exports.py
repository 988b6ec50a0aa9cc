"""Run by another Python, one with inspect-ai and opentelemetry-proto: open what was exported, and print what was seen.

python read_exports.py FOLDER_OF_EVAL_LOGS SPANS.jsonl
"""

import base64
import json
import sys
from pathlib import Path

from google.protobuf import json_format
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def main(logs, spans):
    seen = {"logs": {}, "spans": 0}
    for path in sorted(Path(logs).glob("*.eval")):
        log = read_eval_log(path)
        sample = log.samples[0]
        models = [event for event in sample.events if event.event == "model"]
        seen["logs"][path.name] = {
            "task": log.eval.task,
            "solver": log.eval.solver,
            "samples": len(log.samples),
            "summaries": len(read_eval_log_sample_summaries(path)),
            "prompts": [[message.text for message in event.input] for event in models],
            "tools": [event.function for event in sample.events if event.event == "tool"],
            "score": sample.scores["score"].value,
        }
    for line in Path(spans).read_text(encoding="utf-8").splitlines():
        body = json.loads(line)
        for span in body["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for name in ("traceId", "spanId", "parentSpanId"):  # OTLP says hexadecimal where protobuf's JSON has base64
                if name in span:
                    span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
        request = json_format.ParseDict(body, ExportTraceServiceRequest())
        seen["spans"] += len(request.resource_spans[0].scope_spans[0].spans)
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
