/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What marked.c and its libcuda hand about, and what no output may have when it is redacted:
 * find.py reads these lines. A number has nine decimal digits at least, so that no time has it by
 * chance.
 */
#ifndef MARKS_H
#define MARKS_H

#define TEXT(name, text)  static const char *const name = text;
#define NUMBER(name, n)	  static const unsigned long name = n;
#define NEVER(name, text) static const char *const name = text;

/* strings of calls */
TEXT(MODULE_PATH, "/HIDEMARK_module_path/x.cubin")
TEXT(KERNEL_NAME, "HIDEMARK_kernel_name")
TEXT(PROC_NAME, "HIDEMARK_proc_name")
TEXT(DEVICE_NAME, "HIDEMARK_device_name") /* an answer */
TEXT(ERROR_TEXT, "HIDEMARK_error_text")	  /* an answer, by a pointer */
TEXT(VERSION_TEXT, "595.45.04") /* of the mock driver device, by NV_ESC_CHECK_VERSION_STR */
/* strings of stacks */
TEXT(LIBRARY_PATH, "HIDEMARK_library")
TEXT(SYMBOL_NAME, "HIDEMARK_symbol")
TEXT(PERF_NAME, "HIDEMARK_perf_map")
/* numbers of calls */
NUMBER(ALLOC_SIZE, 0x5ec2e7a11)
NUMBER(BIG_SIZE, 0x5ec2e7a2222) /* of an allocation that fails */
NUMBER(DEVICE_PTR, 0x7a5ec2e73000)
NUMBER(HOST_PTR, 0x7a5ec2e74440)
NUMBER(CONTEXT, 0x7a5ec2e75550)
NUMBER(MODULE, 0x7a5ec2e76660)
NUMBER(FUNCTION, 0x7a5ec2e77770)
NUMBER(STREAM, 0x7a5ec2e78880)
NUMBER(COPY_SIZE, 0x5ec2e7a91)
NUMBER(STRUCT_MEMBER, 0x5ec2e7aa1) /* of CUDA_MEMCPY2D */
NUMBER(GRID, 0x5ec2e7ab)
NUMBER(CONFIG_GRID, 0x5ec2e7ac) /* of CUlaunchConfig */
NUMBER(OPTION_VALUE, 0x5ec2e7ad)
NUMBER(JUMP_DATA, 0x7a5ec2e7ae00) /* of a call that is left by longjmp */
/* of a call that does not return */
NUMBER(STUCK_PTR, 0x7a5ec2e7b000)
NUMBER(STUCK_HOST, 0x7a5ec2e7b110)
NUMBER(STUCK_SIZE, 0x5ec2e7b21)
/* numbers of system calls */
NUMBER(RM_CLIENT, 0xc1d5ec21)
NUMBER(RM_OBJECT, 0x5c5ec221)
NUMBER(RM_PARAMS_SIZE, 0x5ec2e7b3)
NUMBER(UVM_BASE, 0x7a5ec2e80000)
NUMBER(UVM_LENGTH, 0x5ec2e7000)
NUMBER(MAP_SIZE, 0x5ec2e000) /* of mmap */
NUMBER(DESCRIPTOR, 973)	     /* as "fd":973 */

/* What no output has, redacted or not. */
NEVER(COPIED, "HIDEMARK_copied_to_the_gpu")
NEVER(PARAMETER, "HIDEMARK_argument_of_a_kernel")
NEVER(ENVIRONMENT, "HIDEMARK_environment")

#endif /* MARKS_H */
