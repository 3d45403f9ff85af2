#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Packs vLLM for a machine with a Hopper GPU and PyTorch, transformers and Triton, but no network: only the bytes that serving a Llama needs.

usage: vllm_wheels.py FOLDER [PYTHON]    on a machine with pip's index; PYTHON is of the other machine's version (python3.12)

FOLDER gets vllm.tar.xz.00, .01 ... of at most 60 MB, SHA256SUMS and unpack.sh. On the other machine, with these side by side:

    sh unpack.sh /tmp/vllm && export PYTHONPATH=/tmp/vllm

Omitted: packages of the other machine, FlashInfer and other optional kernels, FlashAttention 2 (Hopper uses 3), the front end in Rust,
machine code for other GPUs, quantised matrix products without code for Hopper (Marlin), symbols.
"""
import glob
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile

PIECE = 60 * 1000 * 1000
# Requirements of `pip install --dry-run vllm`, without modules that a server of a Llama never imports, and without installed ones: torch
# 2.11 with its libraries, torchvision,
# torchaudio, transformers 5.17, triton 3.6, numpy, tokenizers, safetensors, huggingface_hub, sentencepiece, tiktoken, numba, opencv-python-headless, protobuf,
# psutil, prometheus-client, regex, requests, tqdm, pillow, aiohttp, anyio, httpx, uvloop, einops, cloudpickle, ninja, nvidia-ml-py, pyyaml, py-cpuinfo.
WANTED = """
    vllm==0.24.0 annotated-types==0.8.0 apache-tvm-ffi==0.1.9 astor==0.8.1 blake3==1.0.11 cachetools==8.0.2 cbor2==6.3.0 compressed-tensors==0.17.0
    depyf==0.20.0 dill==0.4.1 diskcache==5.6.3 distro==1.9.0 dnspython==2.9.2 docstring_parser==0.18.0 email-validator==2.4.0 fastapi==0.136.3
    httpcore2==2.16.2 httptools==0.9.0 httpx2==2.16.2 ijson==3.6.0 interegular==0.3.3 jiter==0.19.0 jmespath==1.1.0 jsonschema==4.26.0
    jsonschema-specifications==2025.9.1 lark==1.2.2 llguidance==1.7.6 lm-format-enforcer==0.11.3 loguru==0.7.3 model-hosting-container-standards==0.1.16
    msgspec==0.22.0 openai==3.57.0 openai-harmony==0.0.8 opentelemetry-api==1.45.2 opentelemetry-sdk==1.45.2 opentelemetry-semantic-conventions==0.66b2
    opentelemetry-semantic-conventions-ai==0.5.1 outlines_core==0.2.14 partial-json-parser==0.2.1.1.post7 prometheus-fastapi-instrumentator==8.1.0
    pybase64==1.5.1 pydantic==2.14.4 pydantic_core==2.50.5 pydantic-extra-types==2.11.1 pydantic-settings==2.16.3 python-dotenv==1.2.4
    python-json-logger==4.2.0 python-multipart==0.0.34 pyzmq==27.3.0 referencing==0.37.0 rpds-py==2026.9.1 setproctitle==1.3.8 sniffio==1.3.1
    sse-starlette==3.7.0 starlette==1.10.0 supervisor==4.3.0 truststore==0.10.5 typing-inspection==0.4.5 uvicorn==0.54.0 watchfiles==1.3.0
    websockets==17.4 xgrammar==0.2.3
"""
USELESS = ("bin", "vllm/vllm-rs", "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so", "vllm/third_party/fmha_sm100", "vllm/third_party/deep_gemm",
           "vllm/entrypoints/serve/instrumentator/static", "xgrammar/lib")
HOPPER, MACHINE_CODE = 90, 2

UNPACK = """#!/bin/sh
# usage: unpack.sh FOLDER    puts the pieces beside this script together there; then: export PYTHONPATH=FOLDER
set -e
cd "$(dirname "$0")"
sha256sum --quiet -c SHA256SUMS
mkdir -p "$1"
cat vllm.tar.xz.* | tar -xJ -C "$1"
python3 -m compileall -q -j 0 "$1" >/dev/null || true
"""


def sections(image):
    """Returns name, offset and size of each section of an ELF file."""
    at, = struct.unpack_from("<Q", image, 0x28)
    count, names = struct.unpack_from("<HH", image, 0x3c)
    heads = [struct.unpack_from("<IIQQQQ", image, at + 64 * i) for i in range(count)]
    for head in heads:
        begin = heads[names][4] + head[0]
        yield image[begin:image.index(b"\0", begin)].decode(), head[4], head[5]


def fat_binaries(image):
    """Returns for each the start of its entries, and the entries as kind, architecture and bytes."""
    for name, at, size in list(sections(image)):
        end = at + size if name == ".nv_fatbin" else at
        while at < end:
            magic, _, head, length = struct.unpack_from("<IHHQ", image, at)
            if magic != 0xBA55ED50:  # padding between two
                at += 8
                continue
            begin = at = at + head
            entries = []
            while at < begin + length:
                kind, _, head, payload = struct.unpack_from("<HHIQ", image, at)
                arch, = struct.unpack_from("<I", image, at + 28)
                entries.append((kind, arch, bytes(image[at:at + head + payload])))
                at += head + payload
            yield begin, entries


def only_hopper(image):
    """Replaces all code that is not for Hopper by zeros, which compress to nothing. One without any keeps the smallest code of another GPU,
    so that its use remains an error, as on an unsupported GPU. Returns the bytes kept."""
    found = list(fat_binaries(image))
    spare = min((code for _, entries in found for kind, arch, code in entries if kind == MACHINE_CODE and arch != HOPPER), key=len, default=b"")
    total = 0
    for begin, entries in found:
        kept = b"".join(code for kind, arch, code in entries if (kind, arch) == (MACHINE_CODE, HOPPER)) or spare
        length = sum(len(code) for _, _, code in entries)
        assert len(kept) <= length
        image[begin:begin + length] = kept.ljust(length, b"\0")
        struct.pack_into("<Q", image, begin - 8, len(kept))
        total += len(kept)
    return total


def shrink(folder):
    for name in USELESS:
        path = os.path.join(folder, name)
        (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
    for path in glob.glob(f"{folder}/**/*.so*", recursive=True):
        with open(path, "rb") as f:
            image = bytearray(f.read())
        kept = only_hopper(image)
        if kept:
            with open(path, "wb") as f:
                f.write(image)
            print(f"  {os.path.relpath(path, folder)}: {kept} bytes for Hopper of {len(image)}", flush=True)
        subprocess.run(["strip", path], check=False, stderr=subprocess.DEVNULL)


def pack(folder, out):
    """Writes it in pieces; returns their number and bytes."""
    with subprocess.Popen(["tar", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "-C", folder, "-c", "."], stdout=subprocess.PIPE) as tar, \
            subprocess.Popen(["xz", "-9", "-T1", "--lzma2=preset=9,dict=256MiB"], stdin=tar.stdout, stdout=subprocess.PIPE) as xz:
        subprocess.run(["split", "-b", str(PIECE), "-d", "-", f"{out}/vllm.tar.xz."], stdin=xz.stdout, check=True)
    if tar.returncode or xz.returncode:
        sys.exit("tar or xz failed")
    pieces = sorted(glob.glob(f"{out}/vllm.tar.xz.*"))
    with open(f"{out}/SHA256SUMS", "w", encoding="utf-8") as sums:
        for piece in pieces:
            with open(piece, "rb") as f:
                sums.write(f"{hashlib.sha256(f.read()).hexdigest()}  {os.path.basename(piece)}\n")
    with open(f"{out}/unpack.sh", "w", encoding="utf-8") as f:
        f.write(UNPACK)
    return len(pieces), sum(map(os.path.getsize, pieces))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out, python = sys.argv[1], (sys.argv[2:] or ["python3.12"])[0]
    os.makedirs(out, exist_ok=True)
    for old in glob.glob(f"{out}/vllm.tar.xz.*"):
        os.remove(old)
    with tempfile.TemporaryDirectory(dir=out) as folder:
        subprocess.run([python, "-m", "pip", "install", "-q", "--root-user-action=ignore", "--no-deps", "--no-compile", "--only-binary=:all:", "--target", folder, *WANTED.split()], check=True)
        shrink(folder)
        count, size = pack(folder, out)
    print(f"{count} pieces, {size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
