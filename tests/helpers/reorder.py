# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""reorder.py sorted|reversed|SEED <TRACE >SAME: reorders the members of each object, at any depth (a number: at random).
The texts of numbers and strings do not change."""
import json
import random
import sys


class Number(str):
    """A number as it was written."""


def orders(how):
    if how == "sorted":
        return sorted
    if how == "reversed":
        return lambda members: sorted(members, reverse=True)
    chance = random.Random(int(how))
    return lambda members: chance.sample(members, len(members))


def text(x, order):
    if isinstance(x, Number):
        return str(x)
    if isinstance(x, dict):
        return "{" + ",".join(json.dumps(k, ensure_ascii=False) + ":" + text(x[k], order) for k in order(list(x))) + "}"
    if isinstance(x, list):
        return "[" + ",".join(text(v, order) for v in x) + "]"
    return json.dumps(x, ensure_ascii=False)


def reordered(lines, how):
    order = orders(how)
    return "".join(text(json.loads(line, parse_int=Number, parse_float=Number), order) + "\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(reordered(sys.stdin, sys.argv[1]))
