# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# cudatrace-pm, the process that samples the hardware counters of GPUs by CUPTI (--gpu-metrics). Included by the main
# Makefile; built and embedded like cudatrace-nvml (nvml/nvml.mk), with its start.

PM_OBJS := $(patsubst %.c,$(O)/%.o,$(wildcard pm/*.c)) $(O)/nvml/start.o
PM      := $(O)/cudatrace-pm

$(O)/pm/%.o: pm/%.c $(O)/flags
	$(call say,CC,$<)mkdir -p $(@D); $(CC) $(NVML_FLAGS) -Invml -c $< -o $@
$(PM): $(PM_OBJS)
	$(NVML_LINK) $(PM_OBJS)

-include $(PM_OBJS:.o=.d)
