# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# cudatrace. `make help` lists the targets, docs/BUILDING.md has the details.
#
#   V=1 show commands   O=DIR build folder   DEBUG=1   SAN=address,undefined   WERROR=1
#   ARCH=x86|arm64 of the BPF side   PREFIX= DESTDIR= for install   REPRODUCIBLE=1 without paths (make dist)

VERSION := 0.1.0
O       ?= build
PREFIX  ?= /usr/local
ARCH    ?= $(patsubst aarch64,arm64,$(patsubst x86_64,x86,$(shell uname -m)))

CC           := $(if $(filter default,$(origin CC)),gcc,$(CC))
CLANG        ?= clang
CLANG_FORMAT ?= clang-format
PKG_CONFIG   ?= pkg-config
INSTALL      ?= install
# Recursive on purpose: evaluated when first needed, so that `make deps` works where nothing is installed.
BPFTOOL      ?= $(shell tools/install-deps.sh bpftool)

Q := $(if $(filter 1,$(V)),,@)
ifeq ($(Q),)
say =
else
say = @printf '  %-8s %s\n' '$(1)' '$(2)';
MAKEFLAGS += --no-print-directory
endif

# --- flags ---
# With sanitizers -O2 takes gcc twice as long as -Og, and -O1 a quarter longer. Line information (-g1) is enough, and
# AddressSanitizer itself detects null pointers, which saves another third.
OPT    := $(if $(DEBUG),-O0 -DDEBUG,$(if $(findstring address,$(SAN)),$(if $(findstring fuzzer,$(SAN)),-O2,-Og),-O2))
# The output must not depend on the build folder. Always for the BPF side, whose type information has file names.
MAP    := -ffile-prefix-map=$(CURDIR)=.
# _FORTIFY_SOURCE needs optimisation, and hides bugs from AddressSanitizer.
HARDEN := -fstack-protector-strong $(if $(DEBUG)$(SAN),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
SANFL  := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer$(if $(findstring fuzzer,$(SAN)),, -g1 -fno-sanitize=null))
# "-D_GNU_SOURCE=" rather than "-D_GNU_SOURCE": no clash with a file that defines it too.
CPPFLAGS_ALL = -D_GNU_SOURCE= -Isrc -Iinclude -I$(O) $(CPPFLAGS)
CFLAGS_ALL   = -std=gnu11 -fno-strict-aliasing $(OPT) -g -Wall -Wextra -Wno-unused-parameter -fPIE $(HARDEN) $(SANFL) \
               $(if $(WERROR),-Werror) $(if $(REPRODUCIBLE),$(MAP)) $(CFLAGS)
CXX          := $(if $(filter default,$(origin CXX)),$(patsubst %gcc,%g++,$(CC)),$(CXX))
CXXFLAGS_ALL = -std=c++17 -fno-exceptions -fno-rtti $(filter-out -std=%,$(CFLAGS_ALL))
LDFLAGS_ALL  = $(SANFL) $(LDFLAGS)
LINK_PIE     = -pie -Wl,-z,now,-z,relro
DEP          = -MMD -MP
PKGS        := 'libbpf >= 1.3' libelf zlib libzstd yaml-0.1 libevent_extra libevent_core libseccomp ncursesw
# libiberty is only an archive, without a .pc file.
LIBS         = $(shell $(PKG_CONFIG) --libs $(PKGS)) -l:libiberty.a -l:libstdc++.a -lm -lpthread -ldl
STATIC_LIBS  = $(shell $(PKG_CONFIG) --static --libs $(PKGS)) -l:libiberty.a -l:libstdc++.a -lm

# clang -target bpf does not look where the host's compiler finds asm/types.h.
BPF_SYS    = $(shell $(CLANG) -v -E -xc /dev/null 2>&1 | \
               sed -n '/<...> search starts here/,/^End of search list/s|^ \(/.*\)|-idirafter \1|p')
BPF_CFLAGS = -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_$(1) -Ivmlinux/$(1) -Iinclude -Wall -Werror \
             $(MAP) $(BPF_SYS)

# --- files: by wildcard, so a new one needs no edit here ---
SRCS       := $(wildcard src/*/*.c src/*/*/*.c src/*/*.cc)
OBJS       := $(patsubst %,$(O)/%.o,$(basename $(SRCS)))
MAIN_OBJ   := $(O)/src/main.o
BPF_SRCS   := $(wildcard bpf/*.bpf.c)
BPF_OBJS   := $(BPF_SRCS:%.c=$(O)/%.o)
ARM64_OBJS := $(BPF_SRCS:%.c=$(O)/arm64/%.o)
LIB        := $(O)/libct.a
# A build with other flags (O=build/san) may take the BPF side from this folder.
SKEL_DIR   ?= $(O)
GEN        := $(O)/version.h $(O)/cudatrace.skel.h $(O)/api_includes.h

UNIT       := $(patsubst tests/unit/%.c,$(O)/unit/%,$(wildcard tests/unit/test_*.c))
UNIT_OBJS  := $(patsubst %.c,$(O)/%.o,$(filter-out tests/unit/test_%,$(wildcard tests/unit/*.c)))

.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
.PHONY: all static deb dist cross-arm64 demo check check-all check-build check-unit check-fake bench faults soak cluster image fuzz deps bpf-arm64 install \
        uninstall clean tables format check-format help san-unit FORCE

all: $(O)/cudatrace $(O)/libcudatrace-inject.so ## build the tracer: build/cudatrace (the default)
static: $(O)/cudatrace-static ## one static binary to copy to any machine: build/cudatrace-static

# --- the program ---
$(O)/cudatrace: $(MAIN_OBJ) $(LIB)
	$(call say,LINK,$@)$(CC) $(CFLAGS_ALL) $(LINK_PIE) $(LDFLAGS_ALL) $^ $(LIBS) -o $@
$(O)/cudatrace-static: $(MAIN_OBJ) $(LIB) $(O)/tools/static-libelf-shim.o
	$(call say,LINK,$@)$(CC) $(CFLAGS_ALL) -static-pie -Wl,-z,now,-z,relro $(LDFLAGS_ALL) $^ $(STATIC_LIBS) -o $@

# An archive, so that a unit test links only what it uses. It is created anew, so that it has no deleted sources.
$(LIB): $(OBJS) $(O)/sources
	$(call say,AR,$@)rm -f $@; $(AR) rcs $@ $(OBJS)

$(O)/%.o: %.c $(O)/flags | $(GEN)
	$(call say,CC,$<)mkdir -p $(@D); $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(DEP) -c $< -o $@

# The program carries the libraries.
INJECT_LIB := $(SKEL_DIR)/libcudatrace-inject.so
NVTX_LIB   := $(SKEL_DIR)/libcudatrace-nvtx.so
$(O)/src/inject/library.o: CPPFLAGS_ALL += -DINJECT_LIBRARY='"$(INJECT_LIB)"' -DNVTX_LIBRARY='"$(NVTX_LIB)"'
$(O)/src/inject/library.o: $(INJECT_LIB) $(NVTX_LIB)
$(O)/src/trace/helper.o: CPPFLAGS_ALL += -DNVML_PROGRAM='"$(SKEL_DIR)/cudatrace-nvml"' -DPM_PROGRAM='"$(SKEL_DIR)/cudatrace-pm"'
$(O)/src/trace/helper.o: $(SKEL_DIR)/cudatrace-nvml $(SKEL_DIR)/cudatrace-pm
# It runs in other processes: nothing outside its section, no vector registers, no instrumentation.
$(O)/src/inject/late_code.o: CFLAGS_ALL = -std=gnu11 -fno-strict-aliasing -Os -g -Wall -Wextra -Wno-unused-parameter -fPIC -fvisibility=hidden \
  -fno-stack-protector $(if $(findstring clang,$(CC)),-fno-builtin,-fno-tree-loop-distribute-patterns) -fomit-frame-pointer -fcf-protection=none -mgeneral-regs-only $(if $(WERROR),-Werror) $(if $(REPRODUCIBLE),$(MAP))
# The assembler includes these files (.incbin): the compiler's list of dependencies does not have them.
$(O)/src/report/page/html_assets.o: $(wildcard src/report/page/html/*.* src/report/page/html/vendor/*)

$(O)/%.o: %.cc $(O)/flags | $(GEN)
	$(call say,CXX,$<)mkdir -p $(@D); $(CXX) $(filter-out -D_GNU_SOURCE=,$(CPPFLAGS_ALL)) $(CXXFLAGS_ALL) $(DEP) -c $< -o $@

# Written only when they change, because files that depend on them are then built again.
put = { cat > $@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@; }

# Evaluated now, because the target that needs the file first may have flags of its own.
FLAGS := $(CC) $(filter-out -Werror -I$(O),$(CPPFLAGS_ALL) $(CFLAGS_ALL))
$(O)/flags: FORCE | $(O)/tools-ok
	@echo '$(FLAGS)' | $(put)
$(O)/sources: FORCE | $(O)/tools-ok
	@echo '$(SRCS) $(BPF_SRCS) $(FAKE_SRCS)' | $(put)

$(O)/version.h: FORCE
	@mkdir -p $(O); v=$$(git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null) || \
	{ v=$$(git rev-parse --short HEAD 2>/dev/null) && v=$(VERSION)-g$$v; } || v=$(VERSION); \
	echo "#define CUDATRACE_VERSION \"$${v#v}\"" | $(put)

# Reports missing tools once, here, instead of by a compiler.
$(O)/tools-ok: | $(O)/version.h
	@lack() { echo "cudatrace: $$1; run: make deps" >&2; exit 1; }; \
	for t in $(firstword $(CC)) $(lastword $(CXX)) $(CLANG) $(BPFTOOL) $(PKG_CONFIG); do \
		command -v $$t >/dev/null || lack "$$t is not installed"; done; \
	$(PKG_CONFIG) --exists $(PKGS) || lack "libbpf >= 1.3, libelf, zlib, zstd, libyaml, libevent, libseccomp and ncursesw are needed, with their headers"; touch $@

# --- the BPF side ---
$(O)/bpf/%.bpf.o: bpf/%.bpf.c | $(O)/tools-ok
	$(call say,BPF,$<)mkdir -p $(@D); $(CLANG) $(call BPF_CFLAGS,$(ARCH)) $(DEP) -c $< -o $@
$(O)/arm64/bpf/%.bpf.o: bpf/%.bpf.c | $(O)/tools-ok
	$(call say,BPF,$< for arm64)mkdir -p $(@D); $(CLANG) $(call BPF_CFLAGS,arm64) $(DEP) -c $< -o $@

# libbpf's linker joins the objects and leaves their DWARF out (BTF stays), so nothing need be stripped.
$(O)/cudatrace.bpf.o: $(BPF_OBJS) $(O)/sources
	$(call say,BPFLINK,$@)$(BPFTOOL) gen object $@ $(BPF_OBJS)

ifeq ($(SKEL_DIR),$(O))
$(O)/cudatrace.skel.h: $(O)/cudatrace.bpf.o
	$(call say,SKEL,$@)$(BPFTOOL) gen skeleton $< name cudatrace_bpf > $@
else
$(O)/cudatrace.skel.h: $(SKEL_DIR)/cudatrace.skel.h
	$(Q)mkdir -p $(@D); cp $< $@
endif

bpf-arm64: $(ARM64_OBJS) ## compile the BPF side for arm64 (any machine can)
	$(call say,BPFLINK,$(O)/arm64/cudatrace.bpf.o)$(BPFTOOL) gen object $(O)/arm64/cudatrace.bpf.o $^

# --- the library in the traced process ---
include inject/inject.mk
# --- the library that programs with NVTX load ---
include nvtx/nvtx.mk
# --- the process that queries NVML ---
include nvml/nvml.mk
# --- the process that samples hardware counters ---
include pm/pm.mk

# --- tests ---
$(O)/unit/%: $(O)/tests/unit/%.o $(UNIT_OBJS) $(LIB)
	$(call say,LINK,$@)mkdir -p $(@D); $(CC) $(CFLAGS_ALL) $(LINK_PIE) $(LDFLAGS_ALL) $^ -lcmocka $(LIBS) -o $@
$(O)/tests/unit/%.o: CPPFLAGS += -Itests/unit -Isrc/decode
# Only the code under test has to be fast; at -O0 its tests are compiled in a third of the time.
$(O)/tests/unit/%.o: CFLAGS += -O0 -U_FORTIFY_SOURCE

# The mock driver, the sample program and the cases.
include tests/fake/fake.mk

# Compilers are no prerequisite of the tests' build, so that -j cannot start one before it is installed. Packages that only
# run tests are installed meanwhile, because that mostly waits for the network and the disk.
again = +$(Q)$(MAKE) $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell echo $$(($$(nproc) + 1))))
tools-%:
	$(Q)tools/install-deps.sh $*
run   = O='$(abspath $(O))' tests/run.sh

san-unit:
	$(again) O=$(O)/san SKEL_DIR=$(O) SAN=address,undefined $(UNIT:$(O)/%=$(O)/san/%) $(O)/san/cudatrace
# Programs of the suites are built before, because suites run side by side. The fuzzers are linked by their own long suite.
check-build: all static fake-all $(patsubst %.c,$(O)/%.o,$(wildcard tests/fuzz/*.c))
	$(if $(UNIT),+$(Q)$(MAKE) san-unit)

demo: ## trace a sample program: on the real driver if there is one, else on a mock driver
	$(Q)tools/install-deps.sh build
	$(again) all fake-all
	$(Q)O='$(O)' tools/demo.sh

check: ## run the tests; installs what they need, ends with "N passed, N failed, N skipped"
	$(Q)tools/install-deps.sh tests
	$(again) tools-check check-build || { echo 'not ok build'; echo '0 passed, 1 failed, 0 skipped'; exit 1; }
	$(Q)$(run) --again
check-all: ## what takes long and check leaves out: other kernels, fuzzing, every mechanism
	$(Q)tools/install-deps.sh tests
	$(again) tools-check-all check-build $(UNIT) || { echo 'not ok build'; echo '0 passed, 1 failed, 0 skipped'; exit 1; }
	$(Q)$(run) --long --again

check-unit: check-build $(UNIT) ## only the unit tests, under ASan and UBSan and plain
	$(Q)$(run) unit && $(run) --long unit
check-fake: check-build ## only the tests that trace the mock driver (root)
	$(Q)$(run) -k 'not test_layers.py and not test_format.py and not test_unit.py and not schema and not runner'

bench: ## measure what tracing costs; installs what it needs (root)
	$(Q)tools/install-deps.sh bench
	$(again) all fake-all
	$(Q)O='$(abspath $(O))' tests/bench/run.sh

faults: ## what goes wrong, with FAULTS_KILLS=200 tracers killed (root)
	$(again) all fake-all
	$(Q)FAULTS_KILLS=$${FAULTS_KILLS:-200} $(run) 'faults*'

soak: ## run the daemon for SOAK_SECONDS=1200 while processes come and go (root)
	$(again) all fake-all
	$(Q)O='$(abspath $(O))' tests/soak/run.sh $(SOAK_SECONDS)

cluster: ## daemons and Prometheus on this machine (root): CLUSTER_OPTIONS='--pods 200'
	$(again) all fake-all
	$(Q)O='$(abspath $(O))' tests/cluster/run.py $(CLUSTER_OPTIONS)

include tests/fuzz/fuzz.mk
fuzz: fuzz-build ## fuzz what reads hostile data, FUZZ_SECONDS=60 each
	$(Q)O='$(abspath $(O))' tests/fuzz/run.sh

tables: all $(O)/unit/test_metrics ## write the tables of docs/ that the program knows
	$(Q)tools/doc-tables.py $(O)/cudatrace
	$(Q)tools/doc-samples.py $(O)/cudatrace
	$(Q)tools/doc-files.py
	$(Q)UPDATE_GOLDEN=1 $(O)/unit/test_metrics >/dev/null

format: ## clang-format all C files
	$(Q)tools/check-format.sh --fix
check-format: ## say which C files clang-format would change
	$(Q)tools/check-format.sh

# --- installing ---
deps: ## install what the build needs (Debian 12, Ubuntu 24.04)
	$(Q)tools/install-deps.sh build

# Installed files, and the program that prints their documents.
PROGRAM      ?= $(O)/cudatrace
DOCUMENTS_BY ?= $(PROGRAM)
$(O)/cudatrace.1: $(DOCUMENTS_BY)
	$(Q)mkdir -p $(@D) && $< --man > $@
$(O)/completion.%: $(DOCUMENTS_BY)
	$(Q)mkdir -p $(@D) && $< --completion=$* > $@

$(O)/cudatrace.service: dist/cudatrace.service.in FORCE
	$(Q)sed "s|@PREFIX@|$(PREFIX)|" $< | $(put)

# WHAT:WHERE:MODE
SHARE     := $(PREFIX)/share
INSTALLED := $(PROGRAM):$(PREFIX)/bin/cudatrace:755 \
  $(INJECT):$(PREFIX)/lib/cudatrace/libcudatrace-inject.so:755 \
  $(O)/fake/libcuda.so.1:$(PREFIX)/lib/cudatrace/fake/libcuda.so.1:755 \
  $(O)/cudatrace.1:$(SHARE)/man/man1/cudatrace.1:644 \
  $(O)/completion.bash:$(SHARE)/bash-completion/completions/cudatrace:644 \
  $(O)/completion.zsh:$(SHARE)/zsh/site-functions/_cudatrace:644 \
  $(O)/completion.fish:$(SHARE)/fish/vendor_completions.d/cudatrace.fish:644 \
  $(foreach f,LICENSE README.md $(filter-out docs/README.md,$(wildcard docs/*.md)),$f:$(SHARE)/doc/cudatrace/$(notdir $f):644) \
  $(foreach f,$(wildcard docs/measured/*.md),$f:$(SHARE)/doc/cudatrace/measured/$(notdir $f):644) \
  $(O)/cudatrace.service:$(PREFIX)/lib/systemd/system/cudatrace.service:644 \
  dist/daemon.yaml:$(SHARE)/doc/cudatrace/daemon.yaml:644 \
  dist/prometheus/alerts.yaml:$(SHARE)/cudatrace/alerts.yaml:644 \
  dist/grafana/cudatrace.json:$(SHARE)/cudatrace/grafana.json:644
# A copy of the tree, because the package must not depend on other files here.
DEB_TREE  := $(O)/deb/cudatrace-$(VERSION)
deb: ## a package: build/deb/*.deb; DEBFULLNAME and DEBEMAIL say whose
	$(Q)tools/install-deps.sh deb
	$(Q)rm -rf $(O)/deb && mkdir -p $(DEB_TREE) && git ls-files -z | tar --null -cT- | tar -xC $(DEB_TREE)
	$(Q)[ -z "$$DEBEMAIL" ] || sed -i "s/The cudatrace authors <.*>/$${DEBFULLNAME:-The cudatrace authors} <$$DEBEMAIL>/" \
		$(DEB_TREE)/debian/control $(DEB_TREE)/debian/changelog
	$(Q)cd $(DEB_TREE) && dpkg-buildpackage -b -us -uc $(if $(Q),>../log 2>&1 || { tail -20 ../log; exit 1; })
	$(Q)ls $(O)/deb/*.deb

dist: ## archives of the static program, x86-64 and arm64: build/dist/*.tar.gz
	$(Q)tools/install-deps.sh dist
	$(again) dist-archives
image: ## the container image, always with the same bytes: build/dist/cudatrace-image.tar
	$(again) dist-image
include dist/dist.mk

part       = $(word $(2),$(subst :, ,$(1)))

install: $(foreach i,$(INSTALLED),$(call part,$i,1)) ## install below PREFIX (/usr/local), DESTDIR before it
	$(Q)$(foreach i,$(INSTALLED),$(INSTALL) -D -m $(call part,$i,3) $(if $(filter 755,$(call part,$i,3)),$(STRIPPED)) $(call part,$i,1) '$(DESTDIR)$(call part,$i,2)' &&) :
uninstall: ## remove what install put there
	$(Q)rm -f $(foreach i,$(INSTALLED),'$(DESTDIR)$(call part,$i,2)')
	$(Q)rmdir '$(DESTDIR)$(SHARE)/doc/cudatrace/measured' '$(DESTDIR)$(SHARE)/doc/cudatrace' '$(DESTDIR)$(SHARE)/cudatrace' 2>/dev/null || :

clean: ## remove the build folder
	$(Q)rm -rf $(O)

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

-include $(patsubst %.o,%.d,$(OBJS) $(MAIN_OBJ) $(BPF_OBJS) $(ARM64_OBJS) $(UNIT_OBJS))
-include $(UNIT:$(O)/unit/%=$(O)/tests/unit/%.d) $(FUZZ:$(O)/fuzz/%=$(O)/tests/fuzz/%.d)
