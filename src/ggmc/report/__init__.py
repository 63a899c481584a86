"""Reports: what a run was, and whether it may be trusted, on one page (`pip install ggmc[report]`).

`write` makes one HTML file that needs nothing else: figures, style and text are in it. The page says first whether the
draws are exact, whether they may be trusted and what to do next; then what was run, and what was measured. What could
not be checked is never said to be well.

    findings.py   what is measured, from one trace
    verdict.py    what follows from it, in plain language
    settings.py   what was run
    sections.py   the parts of the page: figures, tables and their captions
"""

from ggmc.report.write import write

__all__ = ["write"]
