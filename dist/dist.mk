# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# make dist: builds an archive for each of DIST_ARCHS, with the static program and everything that `make install` installs,
# and their checksums, in $(O)/dist/. Included by the main Makefile. Builds are reproducible with the same compilers: paths
# are removed (-ffile-prefix-map), and times are those of SOURCE_DATE_EPOCH or the commit.
#
# Each archive is a separate build by this Makefile. For another architecture, tools/cross-root.sh fetches the libraries,
# and the program built for this machine prints the man page and the completions.

HOST_ARCH  := $(patsubst x86,x86_64,$(patsubst aarch64,arm64,$(ARCH)))
DIST_ARCHS ?= $(HOST_ARCH) $(if $(filter x86_64,$(HOST_ARCH)),arm64)
DIST        = $(O)/dist
DIST_NAME   = cudatrace-$(shell sed -n 's/.*CUDATRACE_VERSION "\(.*\)"/\1/p' $(O)/version.h)-linux-$(1)
DIST_EPOCH  = $${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || \
              date -d "$$(sed -n 's/^ -- .*>  //p' debian/changelog | head -1)" +%s)}

CROSS_ROOT ?= $(abspath $(DIST)/root-arm64)
CROSS       = PKG_CONFIG_LIBDIR=$(CROSS_ROOT)/usr/lib/aarch64-linux-gnu/pkgconfig PKG_CONFIG_SYSROOT_DIR=$(CROSS_ROOT)
dist_build  = $(if $(filter $(HOST_ARCH),$(1)),,$(CROSS)) $(MAKE) O=$(DIST)/build-$(1) REPRODUCIBLE=1 $(if $(filter $(HOST_ARCH),$(1)),, \
              ARCH=arm64 CC=aarch64-linux-gnu-gcc DOCUMENTS_BY=$(DIST)/build-$(HOST_ARCH)/cudatrace-static \
              CPPFLAGS='-isystem $(CROSS_ROOT)/usr/include/aarch64-linux-gnu -isystem $(CROSS_ROOT)/usr/include' \
              LDFLAGS=-L$(CROSS_ROOT)/usr/lib/aarch64-linux-gnu)

dist-archives: $(DIST_ARCHS:%=dist-archive-%)
	$(Q)cd $(DIST) && sha256sum $(foreach a,$(DIST_ARCHS),$(call DIST_NAME,$(a)).tar.gz) >SHA256SUMS && cat SHA256SUMS
dist-archive-%: $(O)/version.h
	$(if $(filter $(HOST_ARCH),$*),,$(Q)tools/cross-root.sh $(CROSS_ROOT))
	+$(Q)umask 022 && rm -rf $(DIST)/$* && $(call dist_build,$*) PROGRAM=$(DIST)/build-$*/cudatrace-static \
		STRIPPED='-s --strip-program=$(if $(filter $(HOST_ARCH),$*),,aarch64-linux-gnu-)strip' PREFIX=/usr/local DESTDIR=$(abspath $(DIST)/$*) install
	$(Q)mv $(DIST)/$*/usr/local $(DIST)/$*/$(call DIST_NAME,$*)
	$(Q)tar -C $(DIST)/$* --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mtime=@$(DIST_EPOCH) \
		-cf - $(call DIST_NAME,$*) | gzip -9n >$(DIST)/$(call DIST_NAME,$*).tar.gz
	$(Q)rm -rf $(DIST)/$*
# For this machine's architecture. It prints the image's digest.
dist-image: $(O)/version.h
	+$(Q)$(call dist_build,$(HOST_ARCH)) $(DIST)/build-$(HOST_ARCH)/cudatrace-static
	$(Q)umask 022 && rm -rf $(DIST)/rootfs && O=$(DIST)/build-$(HOST_ARCH) dist/container/rootfs.sh $(DIST)/rootfs
	$(Q)strip $(DIST)/rootfs/cudatrace
	$(Q)dist/container/image.py $(DIST)/rootfs $(DIST)/cudatrace-image.tar $(VERSION) $(HOST_ARCH:x86_64=amd64) $(DIST_EPOCH)
	$(Q)rm -rf $(DIST)/rootfs
# For tests/vm on arm64 kernels: the static program, the mocks and the programs that use them.
cross-arm64: $(O)/version.h
	$(Q)tools/cross-root.sh $(CROSS_ROOT)
	+$(Q)$(call dist_build,arm64) $(DIST)/build-arm64/cudatrace-static fake-all
# Man page and completions of another architecture need the program built for this one.
$(patsubst %,dist-archive-%,$(filter-out $(HOST_ARCH),$(DIST_ARCHS))): dist-archive-$(HOST_ARCH)
