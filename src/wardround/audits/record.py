"""An audit kept as a small file, so that a report of a run can say that it was done, on which data, and its result."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from wardround import __version__
from wardround.audits.leaks import LeakReport
from wardround.audits.outcome_swap import SwapReport
from wardround.core import UserError, write_atomically
from wardround.records import Store

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """What was audited and what came of it. ``audits``: the audits of the command; ``findings``: how many rows, cells,
    answers and questions show what was not known, over ``samples`` moments of the store with this digest."""

    audits: tuple[str, ...]
    store_digest: str
    policy: str
    samples: int
    findings: int
    made: str
    wardround: str

    @classmethod
    def of(cls, store: Store, report: LeakReport | SwapReport, answers_shown: int | None) -> AuditResult:
        """Return the record of an audit. ``answers_shown``: None where no benchmark's answers were looked for."""
        if isinstance(report, SwapReport):
            audits = ["outcome swap"]
            findings = report.differences + report.answers + report.questions + len(report.wrong)
        else:
            audits = ["times of rows and cells", *(["deletion of the future"] if report.deletion_samples else [])]
            findings = report.differences + report.rows + report.cells
        return cls(
            audits=(*audits, *(["answers on charts"] if answers_shown is not None else [])),
            store_digest=str(store.manifest["digest"]),
            policy=report.policy,
            samples=report.samples,
            findings=findings + (answers_shown or 0),
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            wardround=__version__,
        )

    def write(self, file: Path) -> None:
        """Write it as JSON."""
        write_atomically(file, json.dumps({"version": _VERSION, **asdict(self)}, indent=2) + "\n")

    @classmethod
    def read(cls, file: Path) -> AuditResult:
        """Read it back. UserError: no such file, or it is something else."""
        try:
            body = json.loads(file.read_text(encoding="utf-8"))
            if body.pop("version") != _VERSION:
                raise ValueError("another version")
            return cls(**body | {"audits": tuple(body["audits"])})
        except OSError as error:
            raise UserError(f"{str(file)!r} cannot be read: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{str(file)!r} is no record of an audit; wardround audit leaks --record FILE writes one"
            ) from error
