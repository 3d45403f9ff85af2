# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""imports.py MODULE...: checks that the modules are installed."""
import importlib
import sys

for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as e:
        sys.exit(str(e))
