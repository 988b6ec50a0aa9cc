"""The text of a PDF, read by a process of its own: a file made to burn time or memory ends that process, not ours."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

from wardround.core import UserError, missing_extra

MOST_PAGES = 500
"""Of a file; what comes after them is left out, and said."""
_CPU_SECONDS = 60
_WALL_SECONDS = 120
_MEMORY_BYTES = 2 * 2**30
_READER = """
import io, json, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({cpu}, {cpu}))
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
import logging; logging.disable(logging.CRITICAL)
import pypdf
reader = pypdf.PdfReader(io.BytesIO(sys.stdin.buffer.read()))
count = len(reader.pages)
texts = [reader.pages[n].extract_text() or "" for n in range(min(count, {pages}))]
json.dump(dict(count=count, texts=texts), sys.stdout)
"""


def read_pdf(body: bytes, name: str) -> str:
    """Return the text of a PDF, pages one after the other. UserError: it cannot be read, or not in the time there is.

    ``name`` names it in errors.
    """
    if find_spec("pypdf") is None:
        raise missing_extra("knowledge", what="reading PDF", why="no pypdf here")
    program = _READER.format(cpu=_CPU_SECONDS, memory=_MEMORY_BYTES, pages=MOST_PAGES)
    command = [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{program}"]
    try:
        done = subprocess.run(command, input=body, capture_output=True, timeout=_WALL_SECONDS, check=True)
        read = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise UserError(f"{name}: its text took longer than {_WALL_SECONDS} s to read") from None
    except (subprocess.CalledProcessError, ValueError):
        raise UserError(f"{name} is no PDF that can be read (damaged, encrypted, or made to take too much)") from None
    left_out = read["count"] - len(read["texts"])
    more = [f"[{left_out:,} more pages are not shown]"] if left_out > 0 else []
    return "\n\n".join([*(text.strip() for text in read["texts"]), *more])
