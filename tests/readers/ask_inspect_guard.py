"""Run by another Python, one with inspect-ai and wardround: which models may see the records? Prints yes or why not.

python ask_inspect_guard.py SENSITIVITY MODEL URL|- [PERMITTED ...]
"""

import sys

from wardround.core import UserError
from wardround.learning.adapters.inspect_tasks import check_model
from wardround.models import DataUseGuard

sensitivity, model, url, *permitted = sys.argv[1:]
try:
    check_model(DataUseGuard(sensitivity=sensitivity, permitted=tuple(permitted)), model, None if url == "-" else url)
    sys.stdout.write("yes")
except UserError as error:
    sys.stdout.write(str(error))
