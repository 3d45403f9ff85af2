# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ext4_shutdown.py FOLDER: makes the ext4 file system there fail from now on; nothing is flushed."""
import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack("I", 2))  # EXT4_IOC_SHUTDOWN, nothing is flushed
