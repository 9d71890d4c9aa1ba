"""Every kind of :class:`~netsim.base.errors.InputError`: its code and the problem that it states.

``docs/reference/errors.md`` is made from this table. Details of a case (the value found, what is
allowed, what to do) belong to the error, not to the code.
"""

from __future__ import annotations

ERROR_CODES: dict[str, str] = {
    # a value
    "wrong-type": "has the wrong type",
    "wrong-unit": "has a wrong unit, or none",
    "out-of-range": "is out of range",
    "not-finite": "is not a finite number",
    "wrong-length": "has the wrong number of entries",
    "empty": "is empty",
    "missing": "is missing",
    "duplicate": "occurs more than once",
    "malformed": "cannot be read",
    # names
    "unknown-key": "unknown key",
    "unknown-name": "unknown name",
    "unknown-option": "unknown option",
    "renamed": "has another name now",
    # values that do not fit together
    "conflict": "contradicts another setting",
    "no-effect": "has no effect",
    "needs": "needs something that is missing",
    "unsupported": "is not supported here",
    "more-than-devices": "is more than there are devices",
    "infeasible": "cannot be met",
    "too-large": "is too large to compute",
    # files, folders, processes
    "no-such-file": "there is no such file or folder",
    "not-a-run": "is not a run of netsim",
    "unreadable": "cannot be read",
    "unwritable": "cannot be written",
    "damaged": "is damaged",
    "other-version": "was written by another version of netsim",
    "other-run": "belongs to another run",
    "exists": "exists already",
    "busy": "is in use by another process",
    "out-of-memory": "does not fit into memory",
    # code that a user brings
    "import-refused": "is code that netsim may not import without permission",
    "import-failed": "cannot be imported",
    "wrong-interface": "does not offer what netsim calls",
    "wrong-answer": "returned something unusable",
    "your-code": "failed",
}
