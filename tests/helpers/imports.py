# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""imports.py MODULE...: are they there?"""
import importlib
import sys

for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as e:
        sys.exit(str(e))
