# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Command lines as users write them, and what the program must print."""
import re
import shlex

from .run import CUDATRACE, Ran


def words(line, places):
    """The words of a command line. {NAME} is replaced by that place, or by several words if it is a list. cudatrace is the program."""
    found = []
    for word in shlex.split(line):
        value = places.get(word[1:-1]) if word[:1] + word[-1:] == "{}" else None
        if isinstance(value, list):
            found += value
        else:
            found.append(re.sub(r"\{(\w+)\}", lambda m: str(places.get(m[1], m[0])), CUDATRACE if word == "cudatrace" else word))
    return found


def command(line, places=(), timeout=60, **how):
    """Runs a command line."""
    return Ran(words(line, dict(places)), timeout, **how)


def one_line(ran, status, regex):
    """The program must end with this status and one line on stderr that matches (none if it is empty), without output."""
    assert ran.status == status and ran.err.count("\n") == bool(regex) and not ran.out, ran
    assert not regex or re.match(f"cudatrace: .*({regex})", ran.err), ran
