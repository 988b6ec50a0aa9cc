"""The commands there are: the module of each, imported only when it is asked for, and what it does in a line."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "synth": ("wardround.cli.synth", "make a synthetic hospital (MIMIC-IV shaped CSV files)"),
    "spec": ("wardround.cli.spec", "draft, check or show the spec of a source of your own"),
    "ingest": ("wardround.cli.ingest", "read a folder of source files into a point-in-time store"),
    "bench": ("wardround.cli.bench", "build or show a benchmark"),
    "bundles": (
        "wardround.cli.bundles",
        "write or print what became known hour by hour, and the decisions to foretell",
    ),
    "stream": ("wardround.cli.stream", "follow live patients in a growing folder of JSON lines"),
    "run": ("wardround.cli.run", "run agents on a benchmark, or resume a run"),
    "evolve": ("wardround.cli.evolve", "play training samples and learn experiences from them"),
    "memory": ("wardround.cli.memory", "look into a bank of experiences, and take back what it learnt"),
    "protocol": ("wardround.cli.protocol", "check, read, join and compare files of clinical rules"),
    "grid": ("wardround.cli.grid", "run every method as one run and print its table with paired tests"),
    "reproduce": ("wardround.cli.reproduce", "play a table or figure of a paper and print it beside the paper's"),
    "predict": ("wardround.cli.predict", "fit the classical baselines on a benchmark whose tasks have classes"),
    "report": ("wardround.cli.report", "score a run and write its HTML report"),
    "view": ("wardround.cli.view", "look at runs in a browser: methods, samples, episodes, the record as of then"),
    "compare": ("wardround.cli.compare", "compare two runs sample by sample, with paired tests"),
    "play": ("wardround.cli.play", "let an outside agent play episodes over MCP, recorded and scored"),
    "train": ("wardround.cli.train", "make training data of runs, fine-tune a model on it, compare its use of tools"),
    "images": ("wardround.cli.images", "make a release of images into tables to ingest beside its records"),
    "models": ("wardround.cli.models", "serve a small language model here; list, add and verify imaging weights"),
    "serve": ("wardround.cli.serve", "serve a chart's tools over MCP, or a run's answers as CDS Hooks cards"),
    "export": ("wardround.cli.export", "write stores, charts, labels, predictions or episodes for other tools"),
    "audit": ("wardround.cli.audit", "look for leaks: anything on a chart that was not known yet"),
    "corpus": ("wardround.cli.corpus", "add, list, search or remove corpora of medical text"),
    "codes": ("wardround.cli.codes", "add code tables that wardround may not ship"),
    "list": (
        "wardround.cli.listing",
        "list what exists: sources, tables, tools, agents, tasks, settings and more",
    ),
    "completion": ("wardround.cli.completion", "print a completion script for your shell"),
    "doctor": ("wardround.cli.doctor", "say what is installed, what is missing and how to get it"),
}
