#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""image.py ROOTFS FILE VERSION ARCH EPOCH: packs the folder that rootfs.sh has made as an OCI image archive, without a container engine.
The same contents make the same bytes: entries are sorted, belong to root and have the time EPOCH. `make image` runs it.

docker (25 or later), podman, ctr and skopeo read the archive. Prints its digest, which a registry has, too."""
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import time

INDEX, MANIFEST = "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json"
CONFIG, LAYER = "application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar+gzip"


def add(tar, name, epoch, data=None, mode=0o755):
    info = tarfile.TarInfo(name)
    info.mtime, info.mode = epoch, mode
    if data is None:
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    else:
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))


def layer_of(rootfs, epoch):
    """Only whether a file is executable is kept of its mode: the rest is the umask of the build."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for folder, names, files in os.walk(rootfs):
            names.sort()
            at = os.path.relpath(folder, rootfs)
            if at != ".":
                add(tar, at, epoch, mode=0o1777 if at == "tmp" else 0o755)
            for name in sorted(files):
                path = os.path.join(folder, name)
                with open(path, "rb") as f:
                    add(tar, os.path.normpath(os.path.join(at, name)), epoch, f.read(), 0o755 if os.access(path, os.X_OK) and
                        os.stat(path).st_mode & 0o100 else 0o644)
    return made.getvalue()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def main():
    rootfs, file, version, arch, epoch = sys.argv[1:]
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(epoch)))
    tar = layer_of(rootfs, int(epoch))
    layer = gzip.compress(tar, 9, mtime=0)
    blobs = {}

    def blob(kind, data):
        data = data if isinstance(data, bytes) else json.dumps(data, sort_keys=True).encode()
        blobs[digest(data)] = data
        return {"mediaType": kind, "digest": digest(data), "size": len(data)}
    layer_blob = blob(LAYER, layer)
    # As Containerfile has them.
    labels = {"org.opencontainers.image.title": "cudatrace", "org.opencontainers.image.version": version,
              "org.opencontainers.image.description": "Traces the CUDA driver calls of programs",
              "org.opencontainers.image.licenses": "GPL-2.0-only OR BSD-2-Clause"}
    config = blob(CONFIG, {
        "architecture": arch, "os": "linux", "created": created, "rootfs": {"type": "layers", "diff_ids": [digest(tar)]},
        "config": {"User": "0:0", "Entrypoint": ["/cudatrace"], "Cmd": ["daemon"], "ExposedPorts": {"9464/tcp": {}}, "Labels": labels},
        "history": [{"created": created, "created_by": "make image"}]})
    manifest = blob(MANIFEST, {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer_blob]})
    named = {**manifest, "annotations": {"io.containerd.image.name": f"localhost/cudatrace:{version}",
                                         "org.opencontainers.image.ref.name": version}}
    files = {"oci-layout": {"imageLayoutVersion": "1.0.0"}, "index.json": {"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}}
    with tarfile.open(file + ".part", "w", format=tarfile.USTAR_FORMAT) as out:
        for name in ("blobs", "blobs/sha256"):
            add(out, name, int(epoch))
        for name, data in sorted(blobs.items()):
            add(out, "blobs/" + name.replace(":", "/"), int(epoch), data, 0o644)
        for name, data in files.items():
            add(out, name, int(epoch), json.dumps(data, sort_keys=True).encode(), 0o644)
    os.replace(file + ".part", file)
    print(manifest["digest"])


if __name__ == "__main__":
    main()
