#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compares a report (JSON) with the expectations that the traced program prints.

    expect_report.py REPORT EXPECTED

EXPECTED is the stdout of a program of tests/cases: the rest of each line that begins with "report " is an object whose
members the report must have, as in expect.py. Exit status: 0 the same, 1 different, 2 cannot compare.
"""
import json
import sys

from expect import check_value


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding='utf-8') as f:
        report = json.load(f)
    with open(sys.argv[2], encoding='utf-8') as f:
        wanted = [json.loads(line[len('report '):]) for line in f if line.startswith('report ')]
    if not wanted:
        print('nothing is expected')
        return 2
    wrong = [w for w in (check_value(want, report, 'report') for want in wanted) if w]
    print('\n'.join(wrong))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
