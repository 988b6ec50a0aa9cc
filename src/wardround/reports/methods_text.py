"""The methods of a run as a paragraph for a paper, in plain sentences, and how to cite the software."""

from __future__ import annotations

from collections.abc import Mapping

from wardround.reports.run_facts import RunFacts

_PARTS: Mapping[str, tuple[str, ...]] = {
    "Data": ("aim", "source", "tasks", "people", "moments", "split", "clocks", "audits"),
    "Models and agents": ("models", "dates", "agents", "adaptation", "sampling", "input", "execution", "repeats"),
    "Outcomes and statistics": ("outcome", "judge", "failures", "comparators", "statistics", "subgroups"),
    "Software and cost": ("software", "cost"),
}


def methods_text(facts: RunFacts) -> str:
    """Return the methods as Markdown: a paragraph for each part, then the BibTeX entry."""
    known = facts.texts()
    parts = [
        f"**{title}.** " + " ".join(known[name] for name in names if name in known) for title, names in _PARTS.items()
    ]
    return "\n\n".join([*parts, "```bibtex\n" + bibtex(facts) + "\n```"]) + "\n"


def bibtex(facts: RunFacts) -> str:
    """Return the BibTeX entry of the software version used. The papers of methods and data are cited separately."""
    manifest = facts.folder.manifest
    version, used = manifest["wardround"], str(manifest["created"])
    return "\n".join(
        [
            f"@software{{wardround_{version.replace('.', '_')},",
            "  author = {{The wardround developers}},",
            "  title = {wardround: language-model clinicians over raw electronic health records},",
            f"  version = {{{version}}},",
            f"  year = {{{used[:4]}}},",
            f"  note = {{Used on {used[:10]}; settings {manifest['settings_sha256'][:12]}}}",
            "}",
        ]
    )
