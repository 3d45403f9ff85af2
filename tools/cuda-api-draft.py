#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Draft and check the CUDA tables of src/decode from an installed CUDA toolkit.

    tools/cuda-api-draft.py -I /usr/local/cuda/include draft api|types|enums|structs
    tools/cuda-api-draft.py -I /usr/local/cuda/include diff [--def-dir src/decode]

draft prints one table as a .def file. diff compares the tables in the tree with the
headers: missing and extra functions, other argument names, sizes or pointer levels, other enum
values, other struct offsets. It exits with 1 when something differs, 2 when the headers could not
be read.

The tables at the top of this file hold what is not in the headers: the meaning of a call, which
pointer is an array, the values of a flags argument. The build never runs this tool. The C compiler
(CC) preprocesses the headers and evaluates sizeof, offsetof and enumerators; OpenGL, EGL and VDPAU
headers need not be installed.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

HEADERS = ["cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "cudaProfiler.h"]
TYPEDEF_HEADERS = ["cudaTypedefs.h", "cudaGLTypedefs.h", "cudaEGLTypedefs.h",
                   "cudaVDPAUTypedefs.h", "cudaProfilerTypedefs.h"]
# Minimal versions of other headers, so that the CUDA headers compile.
STUBS = {
    "EGL/egl.h": "typedef int EGLint;\n",
    "EGL/eglext.h": "typedef void *EGLStreamKHR, *EGLImageKHR, *EGLSyncKHR;\n",
    "GL/gl.h": "typedef unsigned int GLuint, GLenum;\n",
    "vdpau/vdpau.h": "typedef unsigned int VdpDevice, VdpVideoSurface, VdpOutputSurface;\n"
                     "typedef int VdpGetProcAddress;\n",
}
SPDX = "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */\n"
STRUCT_MAX = 512

# ---- facts missing from the headers: class and op ----

# First match wins; matched against the public name.
MEANING = [(re.compile("^cu(?:%s)$" % pattern), cls, op) for pattern, cls, op in [
    (r"Init", "INIT", "INIT"),
    (r"GetError.*|DriverGetVersion|GetProcAddress", "INIT", "QUERY"),
    (r"GetExportTable", "INIT", "LOOKUP"),
    # devices
    (r"DeviceGet(Default)?MemPool", "MEMORY", "LOOKUP"),
    (r"DeviceSetMemPool", "MEMORY", "SET"),
    (r"Device(CanAccessPeer|GetP2P.*|GetNvSciSyncAttributes)", "INTEROP", "QUERY"),
    (r"DevicePrimaryCtxRetain", "CONTEXT", "RETAIN"),
    (r"DevicePrimaryCtxRelease", "CONTEXT", "RELEASE"),
    (r"DevicePrimaryCtxReset", "CONTEXT", "DESTROY"),
    (r"DevicePrimaryCtxSetFlags", "CONTEXT", "SET"),
    (r"DevicePrimaryCtxGetState", "CONTEXT", "QUERY"),
    (r"DeviceGetGraphMemAttribute", "GRAPH", "QUERY"),
    (r"DeviceSetGraphMemAttribute", "GRAPH", "SET"),
    (r"DeviceGraphMemTrim", "GRAPH", "TRIM"),
    (r"(Device|Ctx|GreenCtx)GetDevResource", "CONTEXT", "QUERY"),
    (r"DeviceRegisterAsyncNotification", "DEVICE", "CREATE"),
    (r"DeviceUnregisterAsyncNotification", "DEVICE", "DESTROY"),
    (r"Device.*", "DEVICE", "QUERY"),
    (r"FlushGPUDirectRDMAWrites", "DEVICE", "NONE"),
    # contexts
    (r"(Dev(Sm)?Resource.*|CtxFromGreenCtx)", "CONTEXT", "LOOKUP"),
    (r"CtxSynchronize", "SYNC", "SYNC"),
    (r"(Green)?CtxRecordEvent", "EVENT", "RECORD"),
    (r"(Green)?CtxWaitEvent", "CONTEXT", "WAIT"),
    (r"GreenCtxStreamCreate", "STREAM", "CREATE"),
    (r"CtxEnablePeerAccess", "INTEROP", "ENABLE"),
    (r"CtxDisablePeerAccess", "INTEROP", "DISABLE"),
    (r"(Green)?CtxCreate", "CONTEXT", "CREATE"),
    (r"(Green)?CtxDestroy", "CONTEXT", "DESTROY"),
    (r"CtxAttach", "CONTEXT", "RETAIN"),
    (r"CtxDetach", "CONTEXT", "RELEASE"),
    (r"CtxPushCurrent", "CONTEXT", "PUSH"),
    (r"CtxPopCurrent", "CONTEXT", "POP"),
    (r"Ctx(Set.*|ResetPersistingL2Cache)", "CONTEXT", "SET"),
    (r"(Green)?CtxGet.*", "CONTEXT", "QUERY"),
    # modules, libraries, kernels
    (r"(Module|Library)Load.*|FuncLoad", "MODULE", "LOAD"),
    (r"(Module|Library)Unload", "MODULE", "UNLOAD"),
    (r"ModuleGetLoadingMode|(Module|Library)Get\w+Count", "MODULE", "QUERY"),
    (r"(Module|Library)(Get|Enumerate).*", "MODULE", "LOOKUP"),
    (r"LinkCreate", "MODULE", "CREATE"),
    (r"LinkAdd.*", "MODULE", "ADD"),
    (r"LinkComplete", "MODULE", "LINK"),
    (r"LinkDestroy", "MODULE", "DESTROY"),
    (r"(Kernel|Func)Get(Function|Library|Module|Name)", "MODULE", "LOOKUP"),
    (r"(Kernel|Func)Get.*|FuncIsLoaded", "MODULE", "QUERY"),
    (r"ParamSetTexRef", "TEXTURE", "SET"),
    (r"ParamSet.*|FuncSet(BlockShape|SharedSize)", "LAUNCH", "SET"),
    (r"(Kernel|Func)Set.*", "MODULE", "SET"),
    # memory
    (r"Mem(GetInfo|GetAddressRange|HostGetFlags|Get\w*Attribute\w*|RangeGet.*|GetAccess"
     r"|GetAllocation.*|PoolGet.*)", "MEMORY", "QUERY"),
    (r"PointerGet.*", "MEMORY", "QUERY"),
    (r"PointerSet.*", "MEMORY", "SET"),
    (r"MemAlloc", "MEMORY", "ALLOC"),
    (r"MemAllocPitch", "MEMORY", "ALLOC_PITCH"),
    (r"MemAllocManaged", "MEMORY", "ALLOC_MANAGED"),
    (r"MemAllocHost|MemHostAlloc", "MEMORY", "ALLOC_HOST"),
    (r"MemAlloc(FromPool)?Async", "MEMORY", "ALLOC_ASYNC"),
    (r"MemFree", "MEMORY", "FREE"),
    (r"MemFreeHost", "MEMORY", "FREE_HOST"),
    (r"MemFreeAsync", "MEMORY", "FREE_ASYNC"),
    (r"MemHostGetDevicePointer|MemGet(Default)?MemPool", "MEMORY", "LOOKUP"),
    (r"MemSetMemPool|MemPoolSetAttribute", "MEMORY", "SET"),
    (r"MemHostRegister", "MEMORY", "REGISTER"),
    (r"MemHostUnregister", "MEMORY", "UNREGISTER"),
    (r"IpcGetEventHandle", "EVENT", "EXPORT"),
    (r"IpcOpenEventHandle", "EVENT", "IMPORT"),
    (r"IpcGetMemHandle|Mem(Pool)?Export.*|MemGetHandleForAddressRange", "MEMORY", "EXPORT"),
    (r"IpcOpenMemHandle|Mem(Pool)?Import.*", "MEMORY", "IMPORT"),
    (r"IpcCloseMemHandle", "MEMORY", "RELEASE"),
    (r"MemAddressReserve", "MEMORY", "RESERVE"),
    (r"MemAddressFree", "MEMORY", "UNRESERVE"),
    (r"MemCreate", "MEMORY", "MEM_CREATE"),
    (r"MemRelease", "MEMORY", "MEM_RELEASE"),
    (r"MemRetainAllocationHandle", "MEMORY", "RETAIN"),
    (r"MemMap(ArrayAsync)?", "MEMORY", "MAP"),
    (r"MemUnmap", "MEMORY", "UNMAP"),
    (r"Mem(Pool)?SetAccess", "MEMORY", "SET_ACCESS"),
    (r"MemPoolTrimTo", "MEMORY", "TRIM"),
    (r"(MemPool|Multicast)Create", "MEMORY", "CREATE"),
    (r"MemPoolDestroy", "MEMORY", "DESTROY"),
    (r"Multicast(AddDevice|Bind.*)", "MEMORY", "ADD"),
    (r"MulticastUnbind", "MEMORY", "UPDATE"),
    (r"MulticastGet.*", "MEMORY", "QUERY"),
    (r"MemAdvise|MemDiscardBatchAsync", "MEMORY", "ADVISE"),
    (r"(Mipmapped)?Array(3D)?Create", "MEMORY", "ALLOC_ARRAY"),
    (r"(Mipmapped)?ArrayDestroy", "MEMORY", "FREE_ARRAY"),
    (r"ArrayGetPlane|MipmappedArrayGetLevel", "MEMORY", "LOOKUP"),
    (r"(Mipmapped)?Array(3D)?Get.*", "MEMORY", "QUERY"),
    # transfers
    (r"MemcpyHtoD(Async)?", "TRANSFER", "COPY_HTOD"),
    (r"MemcpyDtoH(Async)?", "TRANSFER", "COPY_DTOH"),
    (r"MemcpyDtoD(Async)?", "TRANSFER", "COPY_DTOD"),
    (r"MemcpyHtoA(Async)?", "TRANSFER", "COPY_HTOA"),
    (r"MemcpyAtoH(Async)?", "TRANSFER", "COPY_ATOH"),
    (r"MemcpyDtoA", "TRANSFER", "COPY_DTOA"),
    (r"MemcpyAtoD", "TRANSFER", "COPY_ATOD"),
    (r"MemcpyAtoA", "TRANSFER", "COPY_ATOA"),
    (r"MemcpyPeer(Async)?", "TRANSFER", "COPY_PEER"),
    (r"Memcpy2D(Unaligned|Async)?", "TRANSFER", "COPY_2D"),
    (r"Memcpy3D(Async)?", "TRANSFER", "COPY_3D"),
    (r"Memcpy3DPeer(Async)?", "TRANSFER", "COPY_3D_PEER"),
    (r"Memcpy(3D)?BatchAsync", "TRANSFER", "COPY_BATCH"),
    (r"Memcpy(Async)?", "TRANSFER", "COPY"),
    (r"Memset.*", "TRANSFER", "MEMSET"),
    (r"Mem(DiscardAnd)?Prefetch.*", "TRANSFER", "PREFETCH"),
    (r"MemBatchDecompressAsync", "TRANSFER", "DECOMPRESS"),
    # capture, streams, events
    (r"StreamBeginCapture.*", "GRAPH", "CAPTURE_BEGIN"),
    (r"StreamEndCapture", "GRAPH", "CAPTURE_END"),
    (r"StreamIsCapturing|StreamGetCaptureInfo", "GRAPH", "QUERY"),
    (r"StreamUpdateCaptureDependencies", "GRAPH", "UPDATE"),
    (r"ThreadExchangeStreamCaptureMode", "GRAPH", "SET"),
    (r"(Stream|Event)Synchronize", "SYNC", "SYNC"),
    (r"StreamCreate.*", "STREAM", "CREATE"),
    (r"StreamDestroy", "STREAM", "DESTROY"),
    (r"Stream(Get.*|Query)", "STREAM", "QUERY"),
    (r"StreamWaitEvent", "STREAM", "WAIT"),
    (r"StreamAddCallback", "STREAM", "ADD"),
    (r"Stream(CopyAttributes|SetAttribute|AttachMemAsync)", "STREAM", "SET"),
    (r"Stream(Wait|Write)Value.*|StreamBatchMemOp", "STREAM", "STREAM_MEMOP"),
    (r"EventCreateFromEGLSync", "INTEROP", "CREATE"),
    (r"EventCreate", "EVENT", "CREATE"),
    (r"EventDestroy", "EVENT", "DESTROY"),
    (r"EventRecord.*", "EVENT", "RECORD"),
    (r"Event(Query|ElapsedTime)", "EVENT", "QUERY"),
    # launches
    (r"LaunchKernel", "LAUNCH", "LAUNCH"),
    (r"LaunchKernelEx", "LAUNCH", "LAUNCH_EX"),
    (r"LaunchCooperativeKernel", "LAUNCH", "LAUNCH_COOP"),
    (r"LaunchCooperativeKernelMultiDevice", "LAUNCH", "LAUNCH_MULTI"),
    (r"LaunchHostFunc", "LAUNCH", "LAUNCH_HOST"),
    (r"Launch|LaunchGrid(Async)?", "LAUNCH", "LAUNCH_GRID"),
    # graphs
    (r"Graph(Create|Clone|ConditionalHandleCreate)|UserObjectCreate", "GRAPH", "CREATE"),
    (r"Graph(Exec)?Destroy(Node)?", "GRAPH", "DESTROY"),
    (r"GraphRetainUserObject|UserObjectRetain", "GRAPH", "RETAIN"),
    (r"GraphReleaseUserObject|UserObjectRelease", "GRAPH", "RELEASE"),
    (r"GraphInstantiate.*", "GRAPH", "INSTANTIATE"),
    (r"GraphLaunch", "GRAPH", "GRAPH_LAUNCH"),
    (r"GraphUpload", "GRAPH", "UPLOAD"),
    (r"GraphDebugDotPrint", "GRAPH", "EXPORT"),
    (r"GraphNodeFindInClone", "GRAPH", "LOOKUP"),
    (r"Graph(?!ics)\w*Get.*", "GRAPH", "QUERY"),
    (r"GraphAdd.*", "GRAPH", "ADD"),
    (r"GraphExec.*|GraphRemoveDependencies", "GRAPH", "UPDATE"),
    (r"Graph(?!ics)\w*(Set|CopyAttributes).*", "GRAPH", "SET"),
    (r"Occupancy.*", "OCCUPANCY", "QUERY"),
    # textures and surfaces
    (r"(Tex|Surf)(Ref|Object)Create|TensorMapEncode.*", "TEXTURE", "CREATE"),
    (r"(Tex|Surf)(Ref|Object)Destroy", "TEXTURE", "DESTROY"),
    (r"(Tex|Surf)RefSet.*", "TEXTURE", "SET"),
    (r"(Tex|Surf)(Ref|Object)Get.*", "TEXTURE", "QUERY"),
    (r"TensorMapReplaceAddress", "TEXTURE", "UPDATE"),
    # other APIs
    (r"ImportExternal.*", "INTEROP", "IMPORT"),
    (r"ExternalMemoryGetMapped.*", "INTEROP", "MAP"),
    (r"DestroyExternal.*", "INTEROP", "DESTROY"),
    (r"SignalExternalSemaphoresAsync", "INTEROP", "STREAM_MEMOP"),
    (r"WaitExternalSemaphoresAsync", "INTEROP", "WAIT"),
    (r"GraphicsUnregisterResource|GLUnregisterBufferObject", "INTEROP", "UNREGISTER"),
    (r"Graphics\w*Register.*|GLRegisterBufferObject", "INTEROP", "REGISTER"),
    (r"Graphics\w*GetMapped.*", "INTEROP", "LOOKUP"),
    (r"GraphicsResourceSetMapFlags|GLSetBufferObjectMapFlags", "INTEROP", "SET"),
    (r"GraphicsMapResources|GLMapBufferObject(Async)?", "INTEROP", "MAP"),
    (r"GraphicsUnmapResources|GLUnmapBufferObject(Async)?", "INTEROP", "UNMAP"),
    (r"GLInit", "INTEROP", "INIT"),
    (r"(GL|VDPAU)CtxCreate", "INTEROP", "CREATE"),
    (r"(GL|VDPAU)GetDevices?", "INTEROP", "QUERY"),
    (r"EGLStream\w*Connect.*", "INTEROP", "CREATE"),
    (r"EGLStream\w*Disconnect", "INTEROP", "DESTROY"),
    (r"EGLStreamConsumerAcquireFrame", "INTEROP", "MAP"),
    (r"EGLStreamConsumerReleaseFrame", "INTEROP", "UNMAP"),
    (r"EGLStreamProducer\w*Frame", "INTEROP", "NONE"),
    # profiler and related functions
    (r"ProfilerInitialize", "PROFILER", "INIT"),
    (r"ProfilerStart", "PROFILER", "START"),
    (r"ProfilerStop", "PROFILER", "STOP"),
    (r"CoredumpGet.*|CheckpointProcessGet.*|LogsCurrent", "PROFILER", "QUERY"),
    (r"CoredumpSet.*", "PROFILER", "SET"),
    (r"CheckpointProcessLock", "PROFILER", "LOCK"),
    (r"CheckpointProcessUnlock", "PROFILER", "UNLOCK"),
    (r"CheckpointProcessCheckpoint", "PROFILER", "CHECKPOINT"),
    (r"CheckpointProcessRestore", "PROFILER", "RESTORE"),
    (r"LogsRegisterCallback", "PROFILER", "CREATE"),
    (r"LogsUnregisterCallback", "PROFILER", "DESTROY"),
    (r"LogsDump.*", "PROFILER", "EXPORT"),
]]

# A comment goes before the first row of each topic.
SECTIONS = collections.OrderedDict([
    ("cuGetErrorString", "Errors, initialisation, version"),
    ("cuDeviceGet", "Devices"),
    ("cuDevicePrimaryCtxRetain", "Primary contexts"),
    ("cuCtxCreate", "Contexts"),
    ("cuModuleLoad", "Modules"),
    ("cuLinkCreate", "JIT linking"),
    ("cuLibraryLoadData", "Libraries and kernels"),
    ("cuMemGetInfo", "Memory"),
    ("cuDeviceRegisterAsyncNotification", "Notifications and PCI names"),
    ("cuIpcGetEventHandle", "Sharing between processes, pinned host memory"),
    ("cuMemcpy", "Copies"),
    ("cuMemsetD8", "Memset"),
    ("cuArrayCreate", "CUDA arrays"),
    ("cuMemGetHandleForAddressRange", "Export of address ranges, decompression"),
    ("cuMemAddressReserve", "Virtual memory management"),
    ("cuMemFreeAsync", "Stream-ordered allocation and pools"),
    ("cuMulticastCreate", "Multicast objects"),
    ("cuPointerGetAttribute", "Unified addressing: attributes, prefetch, advice"),
    ("cuStreamCreate", "Streams and capture"),
    ("cuEventCreate", "Events"),
    ("cuImportExternalMemory", "External memory and semaphores"),
    ("cuStreamWaitValue32", "Memory operations on streams"),
    ("cuFuncGetAttribute", "Functions and launches"),
    ("cuGraphCreate", "Graphs"),
    ("cuOccupancyMaxActiveBlocksPerMultiprocessor", "Occupancy"),
    ("cuTexRefSetArray", "Texture and surface references"),
    ("cuTexObjectCreate", "Texture and surface objects"),
    ("cuTensorMapEncodeTiled", "Tensor maps"),
    ("cuDeviceCanAccessPeer", "Peer access"),
    ("cuGraphicsUnregisterResource", "Graphics resources"),
    ("cuGetProcAddress", "Entry points, coredumps, export tables"),
    ("cuGreenCtxCreate", "Green contexts and device resources"),
    ("cuLogsRegisterCallback", "Error log"),
    ("cuCheckpointProcessGetRestoreThreadId", "Checkpoints"),
    ("cuGraphicsGLRegisterBuffer", "OpenGL"),
    ("cuGraphicsEGLRegisterImage", "EGL"),
    ("cuVDPAUGetDevice", "VDPAU"),
    ("cuProfilerInitialize", "Profiler control"),
])
# Functions of the headers' last part (old forms) that belong next to another.
PLACE_BEFORE = {"cuGraphInstantiate": "cuGraphInstantiateWithFlags"}

# ---- facts missing from the headers: arguments ----

# (public name or symbol, argument name) -> item. {T}: the argument's own type; @name: index of the
# argument of that name. First match wins; no match: see draft_arg().
ARGS = [(re.compile("^cu(?:%s)$" % fn), re.compile("^(?:%s)$" % arg), item) for fn, arg, item in [
    # strings that are not const char *
    (r"DeviceGetName", r"name", "OUT_STR"),
    (r"DeviceGetPCIBusId", r"pciBusId", "OUT_STR"),
    (r"DeviceGetLuid", r"luid", "OUT(CUluid)"),
    (r"DeviceGetLuid", r"deviceNodeMask", "OUT(hex32)"),
    (r"GraphInstantiate", r"logBuffer", "OUT_STR"),
    (r"LogsDumpToMemory", r"buffer", "OUT_STR"),
    # flags
    (r"(GL|VDPAU)?CtxCreate|DevicePrimaryCtxSetFlags|CtxSetFlags", r"[fF]lags", "IN(CUctx_flags)"),
    (r"DevicePrimaryCtxGetState|CtxGetFlags", r"flags", "OUT(CUctx_flags)"),
    (r"MemHostAlloc", r"Flags", "IN(CUmemhostalloc_flags)"),
    (r"MemHostGetFlags", r"pFlags", "OUT(CUmemhostalloc_flags)"),
    (r"MemHostRegister", r"Flags", "IN(CUmemhostregister_flags)"),
    (r"MemAllocManaged|StreamAttachMemAsync", r"flags", "IN(CUmemAttach_flags)"),
    (r"IpcOpenMemHandle", r"Flags", "IN(CUipcMem_flags)"),
    (r"MemGetHandleForAddressRange", r"flags", "IN(CUmemRangeFlags64)"),
    (r"MemGetAccess", r"flags", "OUT(CUmemAccess_flags64)"),
    (r"StreamCreate.*|GreenCtxStreamCreate", r"[fF]lags", "IN(CUstream_flags)"),
    (r"StreamGetFlags", r"flags", "OUT(CUstream_flags)"),
    (r"StreamWaitEvent", r"Flags", "IN(CUevent_wait_flags)"),
    (r"StreamUpdateCaptureDependencies", r"flags",
     "IN(CUstreamUpdateCaptureDependencies_flags)"),
    (r"EventCreate.*", r"[fF]lags", "IN(CUevent_flags)"),
    (r"EventRecordWithFlags", r"flags", "IN(CUevent_record_flags)"),
    (r"StreamWaitValue\d+", r"flags", "IN(CUstreamWaitValue_flags)"),
    (r"StreamWriteValue\d+", r"flags", "IN(CUstreamWriteValue_flags)"),
    (r"LaunchCooperativeKernelMultiDevice", r"flags", "IN(CUcooperativeMultiDevice_flags)"),
    (r"GraphInstantiateWithFlags", r"flags", "IN(CUgraphInstantiate_flags64)"),
    (r"GraphExecGetFlags", r"flags", "OUT(CUgraphInstantiate_flags64)"),
    (r"GraphDebugDotPrint", r"flags", "IN(CUgraphDebugDot_flags)"),
    (r"UserObjectCreate", r"flags", "IN(CUuserObject_flags)"),
    (r"GraphRetainUserObject", r"flags", "IN(CUuserObjectRetain_flags)"),
    (r"GraphConditionalHandleCreate", r"flags", "IN(CUgraphConditional_flags)"),
    (r"Occupancy\w*WithFlags", r"flags", "IN(CUoccupancy_flags)"),
    (r"TexRefSet(Mipmapped)?Array", r"Flags", "IN(CUtexrefArray_flags)"),
    (r"TexRefSetFlags", r"Flags", "IN(CUtexref_flags)"),
    (r"TexRefGetFlags", r"pFlags", "OUT(CUtexref_flags)"),
    (r"GraphicsResourceSetMapFlags", r"flags", "IN(CUgraphicsMapResourceFlags)"),
    (r"Graphics(GL|EGL|VDPAU)Register.*", r"[fF]lags", "IN(CUgraphicsRegisterFlags)"),
    (r"GLSetBufferObjectMapFlags", r"Flags", "IN(CUGLmap_flags)"),
    (r"EGLStreamConsumerConnectWithFlags", r"flags", "IN(CUeglResourceLocationFlags)"),
    (r"GetProcAddress", r"flags", "IN(CUdriverProcAddress_flags64)"),
    (r"GreenCtxCreate", r"flags", "IN(CUgreenCtxCreate_flags)"),
    (r"DevSmResourceSplitByCount", r"useFlags", "IN(CUdevSmResourceSplit_flags)"),
    (r"DeviceGetNvSciSyncAttributes", r"flags", "IN(CUnvSciSyncAttr_flags)"),
    (r"GraphicsGLRegisterImage", r"target", "IN(hex32)"),
    # the number of bytes that a call allocates, moves, maps or registers
    (r"Mem(Alloc|AllocHost|HostAlloc|AllocManaged|AllocAsync|AllocFromPoolAsync|HostRegister)",
     r"bytesize", "IN(bytes)"),
    (r"Memcpy.*", r"ByteCount", "IN(bytes)"),
    (r"Mem(Create|AddressReserve|AddressFree|Map|Unmap|SetAccess|GetHandleForAddressRange)"
     r"|Multicast(Bind(Mem|Addr)|Unbind)", r"size", "IN(bytes)"),
    (r"MemPrefetchAsync|MemAdvise|MemRangeGetAttributes?", r"count", "IN(bytes)"),
    (r"StreamAttachMemAsync", r"length", "IN(bytes)"),
    # host data
    (r"Memcpy.*", r"srcHost|dstHost", "IN(hostptr)"),
    (r"MemAllocHost|MemHostAlloc", r"pp", "OUT(hostptr)"),
    (r"MemFreeHost|MemHost\w+", r"p", "IN(hostptr)"),
    (r"TensorMap.*", r"globalAddress", "IN(CUdeviceptr)"),
    (r"Memset.*", r"uc|us|ui", "IN(hex{bits})"),
    # arrays
    (r".*", r"options", "IN_ARR(CUjit_option, @numOptions)"),
    (r".*", r"optionValues", "IN_ARR(ptr, @numOptions)"),
    (r"Library.*", r"jitOptions", "IN_ARR({T}, @numJitOptions)"),
    (r"Library.*", r"jitOptionsValues", "IN_ARR(ptr, @numJitOptions)"),
    (r"Library.*", r"libraryOptions", "IN_ARR({T}, @numLibraryOptions)"),
    (r"Library.*", r"libraryOptionValues", "IN_ARR(ptr, @numLibraryOptions)"),
    (r"Device\w+AtomicCapabilities", r"capabilities",
     "OUT_ARR(CUatomicOperationCapability, @count)"),
    (r"Device\w+AtomicCapabilities", r"operations", "IN_ARR({T}, @count)"),
    (r"CtxCreate_v3", r"paramsArray", "IN_ARR({T}, @numParams)"),
    (r"ModuleEnumerateFunctions", r"functions", "OUT_ARR({T}, @numFunctions)"),
    (r"LibraryEnumerateKernels", r"kernels", "OUT_ARR({T}, @numKernels)"),
    (r"Mem\w+BatchAsync", r"dsts|srcs|sizes|dptrs", "IN_ARR({T}, @count)"),
    (r"MemcpyBatchAsync", r"attrs|attrs?Idxs", "IN_ARR({T}, @numAttrs)"),
    (r"Memcpy3DBatchAsync", r"opList", "IN_ARR({T}, @numOps)"),
    (r"Mem\w+BatchAsync", r"prefetchLocs|prefetchLocIdxs", "IN_ARR({T}, @numPrefetchLocs)"),
    (r"MemBatchDecompressAsync", r"paramsArray", "IN_ARR({T}, @count)"),
    (r"MemMapArrayAsync", r"mapInfoList", "IN_ARR({T}, @count)"),
    (r"MemSetAccess|MemPoolSetAccess", r"desc|map", "IN_ARR({T}, @count)"),
    (r"MemRangeGetAttributes|PointerGetAttributes", r"data", "IN_ARR(ptr, @numAttributes)"),
    (r"MemRangeGetAttributes|PointerGetAttributes", r"dataSizes|attributes",
     "IN_ARR({T}, @numAttributes)"),
    (r"Graph(Node)?Get(Edges|Nodes|RootNodes|Dependencies|DependentNodes)",
     r"nodes|rootNodes|from|to|edgeData|dependencies|dependentNodes", "IN(ptr)"),
    (r"Graph(Node)?Get(Edges|Nodes|RootNodes|Dependencies|DependentNodes)", r"num\w+",
     "INOUT({T})"),
    (r"(Graph|Stream).*", r"dependencies|dependencyData|from|to|edgeData",
     "IN_ARR({T}, @numDependencies)"),
    (r"(Signal|Wait)ExternalSemaphoresAsync", r"extSemArray|paramsArray",
     "IN_ARR({T}, @numExtSems)"),
    (r"StreamBatchMemOp", r"paramArray", "IN_ARR({T}, @count)"),
    (r"LaunchCooperativeKernelMultiDevice", r"launchParamsList", "IN_ARR({T}, @numDevices)"),
    (r"Graphics(Map|Unmap)Resources", r"resources", "IN_ARR({T}, @count)"),
    (r"DevResourceGenerateDesc", r"resources", "IN_ARR({T}, @nbResources)"),
    (r"DevSmResourceSplitByCount", r"result", "IN(ptr)"),
    (r"GLGetDevices", r"pCudaDevices", "OUT_ARR({T}, @cudaDeviceCount)"),
    (r"TensorMapEncode.*", r"globalDim|boxDim|elementStrides", "IN_ARR({T}, @tensorRank)"),
    # One element fewer than tensorRank, or two: not in any argument.
    (r"TensorMapEncode.*", r"globalStrides|pixelBox\w+Corner", "IN(ptr)"),
    (r"TensorMap.*", r"tensorMap", "IN(ptr)"),
    (r"TexRef[GS]etBorderColor", r"pBorderColor", "IN(ptr)"),
    # non-const pointers to memory that the caller fills
    (r"CtxCreate_v4", r"ctxCreateParams", "IN_PTR({T})"),
    (r"Mem(PoolGetAccess|GetDefaultMemPool|GetMemPool|SetMemPool)", r"location", "IN_PTR({T})"),
    (r"MemPoolImportPointer", r"shareData", "IN_PTR({T})"),
    (r"Graph(Exec)?NodeSetParams", r"nodeParams", "IN_PTR({T})"),
    (r"DeviceSetGraphMemAttribute", r"value", "IN_PTR(u64)"),
    (r"DeviceGetGraphMemAttribute", r"value", "OUT(u64)"),
    (r"CoredumpSet.*", r"size", "IN_PTR({T})"),
    (r"CheckpointProcess(Checkpoint|Unlock)", r"args", "IN(ptr)"),
    (r"CheckpointProcess\w+", r"args", "IN_PTR({T})"),
    (r"EGLStream\w+", r"pStream", "IN_PTR({T})"),
    (r"EGLStream\w+(Disconnect|Frame)", r"conn", "IN_PTR({T})"),
    (r"VDPAU.*", r"vdpGetProcAddress", "IN(ptr)"),
    # read and written
    (r"ThreadExchangeStreamCaptureMode", r"mode", "INOUT({T})"),
    (r"CoredumpGet.*|LogsDumpToMemory", r"size", "INOUT({T})"),
    (r"LogsDump.*", r"iterator", "INOUT({T})"),
    (r"DevSmResourceSplitByCount", r"nbGroups", "INOUT({T})"),
    (r"GraphAdd(MemAlloc)?Node", r"nodeParams", "INOUT({T})"),
    (r"GraphInstantiateWithParams", r"instantiateParams", "INOUT({T})"),
    # the reason of a failure: read if the call failed
    (r"GraphExecUpdate", r"resultInfo|hErrorNode_out|updateResult_out", "INOUT({T})"),
    (r"MemcpyBatchAsync|Memcpy3DBatchAsync", r"failIdx", "INOUT({T})"),
    (r"MemBatchDecompressAsync", r"errorIndex", "INOUT({T})"),
    (r"GraphInstantiate", r"phErrorNode", "INOUT({T})"),
    (r"MemGetHandleForAddressRange", r"handle", "OUT(int)"),
    # addresses of arguments and of results
    (r"Launch.*", r"kernelParams|extra", "IN(ptr)"),
]]

# ---- facts missing from the headers: types ----

# C type -> token, where the token is not the C name.
BASE = {
    "int": "int", "unsigned int": "uint", "unsigned": "uint", "cuuint32_t": "uint",
    "size_t": "size_t", "unsigned long long": "u64", "cuuint64_t": "u64", "float": "float",
    "unsigned char": "u8", "unsigned short": "u16", "EGLint": "int", "GLuint": "uint",
    "GLenum": "uint", "VdpDevice": "uint", "VdpVideoSurface": "uint", "VdpOutputSurface": "uint",
    "EGLStreamKHR": "ptr", "EGLImageKHR": "ptr", "EGLSyncKHR": "ptr",
    "CUstreamAttrID": "CUlaunchAttributeID", "CUkernelNodeAttrID": "CUlaunchAttributeID",
    "CUstreamAttrValue": "CUlaunchAttributeValue",
    "CUkernelNodeAttrValue": "CUlaunchAttributeValue",
}
# token, C name, size, kind, comment
PLAIN_TYPES = [
    ("int", "int", 4, "INT", ""),
    ("uint", "unsigned int", 4, "UINT", ""),
    ("u8", "unsigned char", 1, "UINT", ""),
    ("u16", "unsigned short", 2, "UINT", ""),
    ("u64", "unsigned long long", 8, "UINT", ""),
    ("hex8", "unsigned char", 1, "HEX", "memset patterns, masks"),
    ("hex16", "unsigned short", 2, "HEX", ""),
    ("hex32", "unsigned int", 4, "HEX", ""),
    ("float", "float", 4, "FLOAT", ""),
    ("size_t", "size_t", 8, "UINT", ""),
    ("bytes", "size_t", 8, "UINT", "a size_t that is the number of bytes allocated or moved"),
    ("bytes32", "unsigned int", 4, "UINT", "the same in the API of CUDA < 3.2"),
    ("ptr", "void *", 8, "PTR", ""),
    ("hostptr", "void *", 8, "HEX", "host address of data"),
    ("CUluid", "char[8]", 8, "BYTES", "cuDeviceGetLuid"),
]
# Opaque structs: bytes.
BYTES_TYPES = ["CUuuid", "CUipcEventHandle", "CUipcMemHandle", "CUmemPoolPtrExportData"]
DECIMAL_TYPES = {"CUdevice": "INT", "CUlogIterator": "UINT"}
# Enums whose values are or-ed.
FLAG_ENUMS = set("""
CUipcMem_flags CUmemAttach_flags CUctx_flags CUevent_sched_flags cl_event_flags cl_context_flags
CUstream_flags CUevent_flags CUevent_record_flags CUevent_wait_flags CUstreamWaitValue_flags
CUstreamWriteValue_flags CUoccupancy_flags CUgraphicsRegisterFlags CUgraphicsMapResourceFlags
CUdriverProcAddress_flags CUmemAllocationHandleType CUmemRangeFlags CUmemcpyFlags
CUflushGPUDirectRDMAWritesOptions CUgraphDebugDot_flags CUuserObject_flags
CUuserObjectRetain_flags CUgraphInstantiate_flags CUCoredumpGenerationFlags
CUgreenCtxCreate_flags CUdevSmResourceSplit_flags CUGLmap_flags CUmemDecompressAlgorithm
CUatomicOperationCapability CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS
""".split())
# Enums that are macros in the headers: name -> macros, by prefix or one by one. All are flags.
MACRO_ENUMS = collections.OrderedDict([
    ("CUmemhostalloc_flags", r"CU_MEMHOSTALLOC_\w+"),
    ("CUmemhostregister_flags", r"CU_MEMHOSTREGISTER_\w+"),
    ("CUarray3d_flags", r"CUDA_ARRAY3D_\w+"),
    ("CUarraySparse_flags", r"CU_ARRAY_SPARSE_PROPERTIES_\w+"),
    ("CUtexrefArray_flags", r"CU_TRSA_\w+"),
    ("CUtexref_flags", r"CU_TRSF_\w+"),
    ("CUcooperativeMultiDevice_flags", r"CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_\w+"),
    ("CUexternalMemory_flags", r"CUDA_EXTERNAL_MEMORY_\w+"),
    ("CUexternalSemaphore_flags", r"CUDA_EXTERNAL_SEMAPHORE_\w+"),
    ("CUnvSciSyncAttr_flags", r"CUDA_NVSCISYNC_ATTR_\w+"),
    ("CUmemCreateUsage_flags", r"CU_MEM_CREATE_USAGE_\w+"),
    ("CUmemPoolCreateUsage_flags", r"CU_MEM_POOL_CREATE_USAGE_\w+"),
    ("CUgraphConditional_flags", r"CU_GRAPH_COND_\w+"),
    ("CUgraphKernelNodePort", r"CU_GRAPH_KERNEL_NODE_PORT_\w+"),
])
# An enum in something that is not four bytes wide: token, C type, size, enum.
SIZED_ENUMS = [
    ("CUmemRangeFlags64", "unsigned long long", 8, "CUmemRangeFlags"),
    ("CUmemAccess_flags64", "unsigned long long", 8, "CUmemAccess_flags"),
    ("CUmemAllocationHandleType64", "unsigned long long", 8, "CUmemAllocationHandleType"),
    ("CUgraphInstantiate_flags64", "unsigned long long", 8, "CUgraphInstantiate_flags"),
    ("CUdriverProcAddress_flags64", "cuuint64_t", 8, "CUdriverProcAddress_flags"),
    ("CUgraphDependencyType8", "unsigned char", 1, "CUgraphDependencyType"),
    ("CUgraphKernelNodePort8", "unsigned char", 1, "CUgraphKernelNodePort"),
    ("CUmemAllocationCompType8", "unsigned char", 1, "CUmemAllocationCompType"),
    ("CUmemCreateUsage_flags16", "unsigned short", 2, "CUmemCreateUsage_flags"),
    ("CUmemPoolCreateUsage_flags16", "unsigned short", 2, "CUmemPoolCreateUsage_flags"),
]
# Counters and masks that no argument holds. _MAX is one only when it comes last.
NOT_A_VALUE = re.compile(r"^(CU_CTX_(SCHED|FLAGS)_MASK|CU_JIT_NUM_\w+|\w+_FORCE_\w+)$")
# Enumerators to print instead of earlier ones with the same value.
PREFER = {"CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", "CUDA_ARRAY3D_LAYERED",
          "CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED"}

# Structs with unions, or with better names than the flattened ones: name -> [(C path, token or
# None, name or None)]. All others are flattened as declared.
STRUCT_FIELDS = {
    # What the union holds follows from id; most members are one or three ints.
    "CUlaunchAttributeValue": [("pad", "int*3", "value")],
    "CUlaunchAttribute": [("id", None, None), ("value", "int*3", "value")],
    "CUstreamBatchMemOpParams": [
        ("operation", None, None), ("waitValue.address", None, "address"),
        ("waitValue.value64", None, "value"), ("waitValue.flags", "hex32", "flags")],
    "CUexecAffinityParam": [("type", None, None), ("param.smCount.val", None, "smCount")],
    "CUDA_RESOURCE_DESC": [
        ("resType", None, None), ("res.pitch2D.devPtr", None, "res"),
        ("res.pitch2D.format", None, "format"), ("res.pitch2D.numChannels", None, "numChannels"),
        ("res.pitch2D.width", None, "width"), ("res.pitch2D.height", None, "height"),
        ("res.pitch2D.pitchInBytes", None, "pitchInBytes"), ("flags", None, None)],
    "CUDA_EXTERNAL_MEMORY_HANDLE_DESC": [
        ("type", None, None), ("handle.fd", None, "fd"), ("size", None, None),
        ("flags", None, None)],
    "CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC": [
        ("type", None, None), ("handle.fd", None, "fd"), ("flags", None, None)],
    "CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS": [
        ("params.fence.value", None, "fence_value"), ("params.nvSciSync.fence", None, "nvSciSync"),
        ("params.keyedMutex.key", None, "keyedMutex_key"), ("flags", None, None)],
    "CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS": [
        ("params.fence.value", None, "fence_value"), ("params.nvSciSync.fence", None, "nvSciSync"),
        ("params.keyedMutex.key", None, "keyedMutex_key"),
        ("params.keyedMutex.timeoutMs", None, "keyedMutex_timeoutMs"), ("flags", None, None)],
    "CUarrayMapInfo": [
        ("resourceType", None, None), ("resource.array", None, "resource"),
        ("subresourceType", None, None), ("memOperationType", None, None),
        ("memHandleType", None, None), ("memHandle.memHandle", None, "memHandle"),
        ("offset", None, None), ("deviceBitMask", "hex32", None), ("flags", None, None)],
    "CUmemcpy3DOperand": [
        ("type", None, None), ("op.ptr.ptr", None, "ptr"), ("op.ptr.rowLength", None, "rowLength"),
        ("op.ptr.layerHeight", None, "layerHeight"), ("op.ptr.locHint", None, "locHint")],
    "CUgraphNodeParams": [("type", None, None)],
    "CUdevResource": [
        ("type", None, None), ("sm.smCount", None, "smCount"),
        ("sm.minSmPartitionSize", None, "minSmPartitionSize"),
        ("sm.smCoscheduledAlignment", None, "smCoscheduledAlignment")],
    "CUeglFrame": [
        ("frame.pArray", None, "frame"), ("width", None, None), ("height", None, None),
        ("depth", None, None), ("pitch", None, None), ("planeCount", None, None),
        ("numChannels", None, None), ("frameType", None, None), ("eglColorFormat", None, None),
        ("cuFormat", None, None)],
}
FIELD_TYPES = {
    ("CUDA_ARRAY3D_DESCRIPTOR", "Flags"): "CUarray3d_flags",
    ("CUDA_ARRAY3D_DESCRIPTOR_v1", "Flags"): "CUarray3d_flags",
    ("CUDA_ARRAY_SPARSE_PROPERTIES", "flags"): "CUarraySparse_flags",
    ("CUDA_TEXTURE_DESC", "flags"): "CUtexref_flags",
    ("CUDA_EXTERNAL_MEMORY_HANDLE_DESC", "flags"): "CUexternalMemory_flags",
    ("CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS", "flags"): "CUexternalSemaphore_flags",
    ("CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS", "flags"): "CUexternalSemaphore_flags",
    ("CUmemAllocationProp", "allocFlags_compressionType"): "CUmemAllocationCompType8",
    ("CUmemAllocationProp", "allocFlags_usage"): "CUmemCreateUsage_flags16",
    ("CUmemPoolProps", "usage"): "CUmemPoolCreateUsage_flags16",
    ("CUmulticastObjectProp", "handleTypes"): "CUmemAllocationHandleType64",
    ("CUmulticastObjectProp", "size"): "bytes",
    ("CUDA_GRAPH_INSTANTIATE_PARAMS", "flags"): "CUgraphInstantiate_flags64",
    ("CUgraphEdgeData", "type"): "CUgraphDependencyType8",
    ("CUgraphEdgeData", "from_port"): "CUgraphKernelNodePort8",
    ("CUmemcpyAttributes", "flags"): "CUmemcpyFlags",
    ("CUDA_MEMCPY3D_BATCH_OP", "flags"): "CUmemcpyFlags",
    ("CUDA_MEM_ALLOC_NODE_PARAMS", "bytesize"): "bytes",
    ("CUDA_MEMSET_NODE_PARAMS", "value"): "hex32",
}
HOST_FIELDS = {"srcHost", "dstHost"}
SKIP_FIELDS = re.compile(r"^_?(reserved\w*|pad|padding|internal_padding|oversize)$")
# Structs that the model reads although no argument points to them.
EXTRA_STRUCTS = ["CUlaunchAttribute", "CUDA_KERNEL_NODE_PARAMS_v3"]


def public_name(symbol):
    return re.sub(r"(_v\d+)?(_pt[ds][sz])?$", "", symbol)


# ---- headers ----

Arg = collections.namedtuple("Arg", "ctype stars const name")


class Headers:
    """The contents of one include directory, from the compiler and some parsing."""

    def __init__(self, include, cc):
        self.include, self.cc = include, cc
        self.tmp = tempfile.TemporaryDirectory()
        for path, text in STUBS.items():
            path = os.path.join(self.tmp.name, "stub", path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text)
        # cudaVDPAU.h expects that VDPAU was included before.
        self.prologue = "".join("#include <%s>\n" % h for h in ["vdpau/vdpau.h"] + HEADERS)
        flat = self.compiler(["-E", "-P"], self.prologue)
        self.flat = re.sub(r"\s+", " ", flat)
        self.funcs = self.parse_functions()
        self.parse_typedefs()
        self.since = self.parse_since()

    def compiler(self, args, source):
        # __CUDA_API_VERSION_INTERNAL shows every exported form under its own name.
        cmd = [self.cc, "-D__CUDA_API_VERSION_INTERNAL", "-w",
               "-I", os.path.join(self.tmp.name, "stub"), "-I", self.include, "-x", "c", "-"]
        return subprocess.run(cmd + args, input=source, text=True, check=True,
                              stdout=subprocess.PIPE).stdout

    def parse_functions(self):
        funcs = collections.OrderedDict()
        for symbol, args in re.findall(r"CUresult (cu[A-Z]\w+)\(([^;{}]*?)\) ?;", self.flat):
            args = [a.strip() for a in args.split(",")]
            funcs[symbol] = [] if args == ["void"] else [self.parse_arg(a) for a in args]
        # The documented declaration is the one that became _ptsz or _ptds here; the plain form in
        # the last part of cuda.h sometimes has other argument names.
        for symbol in funcs:
            twin = funcs.get(symbol + "_ptsz") or funcs.get(symbol + "_ptds") or []
            if [a[:3] for a in twin] == [a[:3] for a in funcs[symbol]]:
                funcs[symbol] = twin
        return funcs

    @staticmethod
    def parse_arg(text):
        m = re.match(r"^(const )?([\w ]+?) ?([* ]*?) ?(\w+)$", text)
        if not m:
            raise ValueError("cannot parse argument: " + text)
        return Arg(m.group(2), m.group(3).count("*"), bool(m.group(1)), m.group(4))

    def parse_typedefs(self):
        self.alias = {}  # CUdeviceptr -> CUdeviceptr_v2
        for old, new in re.findall(r"typedef ((?:unsigned )?\w+(?: long| int| char)*) (\w+) ?;",
                                   self.flat):
            self.alias[new] = old
        for old, news in re.findall(r"typedef (\w+) ((?:\w+, )+\w+) ?;", self.flat):
            self.alias.update((new, old) for new in news.split(", "))
        self.handles = set(re.findall(r"typedef struct \w+ ?\* ?(\w+) ?;", self.flat))
        self.callbacks = set(re.findall(r"typedef [\w *]+\( ?(?:__stdcall )?\* ?(\w+)\) ?\(",
                                        self.flat))
        self.enums = collections.OrderedDict()
        for body, name in re.findall(r"typedef enum \w* ?\{([^}]*)\} ?(\w+) ?;", self.flat):
            values = [v.split("=")[0].strip() for v in body.split(",")]
            values = [v for v in values if v and not NOT_A_VALUE.match(v)]
            if values[-1].endswith("_MAX"):
                values.pop()
            self.enums[name] = values
        self.structs = collections.OrderedDict()
        for m in re.finditer(r"typedef (?:struct|union) \w* ?(?=\{)", self.flat):
            end = self.closing(m.end())
            name = re.match(r"\} ?(\w+) ?;", self.flat[end:])
            if name:
                self.structs[name.group(1)] = self.flat[m.end() + 1:end]

    def closing(self, start, text=None):
        text, depth = text or self.flat, 0
        for i in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            if depth == 0 and text[i] == "}":
                return i
        raise ValueError("unbalanced braces")

    def parse_since(self):
        """Symbol -> CUDA version. The n-th form of a name is its n-th version in cudaTypedefs.h."""
        versions, forms = collections.defaultdict(set), collections.defaultdict(list)
        for header in TYPEDEF_HEADERS:
            path = os.path.join(self.include, header)
            if not os.path.exists(path):
                continue
            with open(path, errors="replace") as f:
                for name, ver, suffix in re.findall(r"PFN_(cu\w+?)_v(\d{4,5})(_pt[ds][sz])?\b",
                                                    f.read()):
                    versions[name, suffix].add(int(ver))
        for symbol in self.funcs:
            suffix = symbol[-5:] if re.search(r"_pt[ds][sz]$", symbol) else ""
            forms[public_name(symbol), suffix].append(symbol)
        since = {}
        for key, symbols in forms.items():
            if len(symbols) == len(versions[key]):
                since.update(zip(sorted(symbols, key=symbol_order), sorted(versions[key])))
        return since

    def struct_body(self, name):
        """The struct behind a name: its own or an alias's."""
        while name not in self.structs and name in self.alias:
            name = self.alias[name]
        return self.structs.get(name)

    def members(self, body):
        """Yields (path, C type, stars, array length) with nested anonymous structs flattened."""
        pos = 0
        body = re.sub(r"_Alignas\(\d+\)|__attribute__\(\(.*?\)\)", "", body)
        while pos < len(body):
            rest = body[pos:]
            m = re.match(r" ?(struct|union) ?\w* ?\{", rest)
            if m:
                end = self.closing(m.end() - 1, rest)
                tail = re.match(r"\} ?(\w*) ?;", rest[end:])
                prefix = tail.group(1)
                if m.group(1) == "struct":
                    for path, ctype, stars, count in self.members(rest[m.end():end]):
                        yield (prefix + "." + path if prefix else path), ctype, stars, count
                pos += end + tail.end()
                continue
            m = re.match(r" ?(?:const )?([\w ]+?) ?([* ]*?) ?(\w+)((?: ?\[[^\]]*\])?) ?;", rest)
            if not m:
                break
            count = m.group(4).strip(" []")
            yield m.group(3), m.group(1), m.group(2).count("*"), count
            pos += m.end()

    def declared_types(self):
        """C types that arguments and struct members have."""
        types = {a.ctype for args in self.funcs.values() for a in args}
        for body in self.structs.values():
            types.update(re.findall(r"\w+", body))
        return types | {self.alias[t] for t in types if t in self.alias}

    def evaluate(self, expressions):
        """Compiles a program that prints the expressions, runs it, returns the numbers."""
        lines = ["\tprintf(\"%%lld\\n\", (long long)(%s));\n" % e for e in expressions]
        source = self.prologue + "#include <stdio.h>\n#include <stddef.h>\nint main(void)\n{\n" + \
            "".join(lines) + "\treturn 0;\n}\n"
        exe = os.path.join(self.tmp.name, "probe")
        self.compiler(["-o", exe], source)
        out = subprocess.run([exe], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        return dict(zip(expressions, map(int, out)))


def symbol_order(symbol):
    version = re.search(r"_v(\d+)(_pt|$)", symbol)
    return (int(version.group(1)) if version else 1, symbol[-5:] if "_pt" in symbol else "")


# ---- drafting ----

class Draft:
    def __init__(self, headers):
        self.h = headers
        self.used = collections.OrderedDict()  # tokens that rows name, in order
        self.macro_enums = self.find_macro_enums()

    # types

    def token(self, ctype, stars=0):
        if stars:
            return "ptr"
        if ctype in BASE:
            return BASE[ctype]
        if ctype in self.h.callbacks or ctype == "void":
            return "ptr"
        # Prefer the plain name of a struct that also has one with a version.
        for new, old in self.h.alias.items():
            if old == ctype and new == re.sub(r"_v\d+$", "", ctype):
                return new
        return ctype

    def use(self, token):
        self.used.setdefault(token)
        return token

    # functions

    def draft_arg(self, symbol, args, arg):
        name, token = arg.name, self.token(arg.ctype, max(arg.stars - 1, 0))
        for fn, pattern, item in ARGS:
            if (fn.match(public_name(symbol)) or fn.match(symbol)) and pattern.match(name):
                return self.expand(item, args, arg, token)
        if arg.stars == 0:
            return "IN(%s, %s)" % (self.use(token), name)
        if arg.ctype == "char" and arg.stars == 1 and arg.const:
            return "IN_STR(%s)" % name
        if arg.ctype == "char" and arg.stars == 2:
            return "OUT_PSTR(%s)" % name
        if arg.ctype in ("void", "char") and arg.stars == 1:
            return "IN(ptr, %s)" % name
        if arg.stars > 1:
            return "OUT(ptr, %s)" % name
        return "%s(%s, %s)" % ("IN_PTR" if arg.const else "OUT", self.use(token), name)

    def expand(self, item, args, arg, token):
        if "(" not in item:
            return "%s(%s)" % (item, arg.name)
        kind, rest = item.rstrip(")").split("(")
        rest = rest.replace("{T}", token)
        rest = rest.replace("{bits}", {"u8": "8", "u16": "16"}.get(token, "32"))
        if rest == "bytes" and token == "uint":
            rest = "bytes32"
        if "@" in rest:
            token, count = rest.split(", @")
            names = [a.name for a in args]
            # The newest prototypes have another name for the number.
            if count not in names:
                count = next(n for n in names if re.match("num|count", n))
            self.use(token)
            return "%s(%s, %s, %d)" % (kind, token, arg.name, names.index(count))
        return "%s(%s, %s)" % (kind, self.use(rest), arg.name)

    def rows(self):
        """[(symbol, class, op, since, [item])] in the order of cuda.h, forms of a name together."""
        groups = collections.OrderedDict()
        for symbol in self.h.funcs:
            groups.setdefault(public_name(symbol), []).append(symbol)
        order = [n for n in groups if n not in PLACE_BEFORE]
        for name, before in PLACE_BEFORE.items():
            if name in groups:
                order.insert(order.index(before) if before in order else len(order), name)
        rows = []
        for name in order:
            cls, op = self.meaning(name)
            for symbol in sorted(groups[name], key=symbol_order):
                args = self.h.funcs[symbol]
                items = [self.draft_arg(symbol, args, a) for a in args]
                rows.append((symbol, cls, op, self.h.since.get(symbol, 0), items))
        return rows

    @staticmethod
    def meaning(name):
        for pattern, cls, op in MEANING:
            if pattern.match(name):
                return cls, op
        sys.stderr.write("warning: no meaning for %s\n" % name)
        return "OTHER", "NONE"

    # enums

    def find_macro_enums(self):
        enums = collections.OrderedDict()
        text = ""
        for header in HEADERS:
            with open(os.path.join(self.h.include, header), errors="replace") as f:
                text += f.read()
        macros = re.findall(r"^\s*#define\s+(\w+)\s+(?:0x[0-9a-fA-F]+|\d+)\s*(?:/\*.*)?$", text,
                            re.M)
        for name, pattern in MACRO_ENUMS.items():
            found = [m for m in macros if re.match("^%s$" % pattern, m)]
            if found:
                enums[name] = list(dict.fromkeys(found))
        return enums

    def enum_values(self):
        """Ordered name -> [(enumerator, value)] ascending, the printed alias first."""
        enums = collections.OrderedDict(self.h.enums)
        enums.update(self.macro_enums)
        value = self.h.evaluate([v for values in enums.values() for v in values])
        return collections.OrderedDict(
            (name, sorted(((v, value[v]) for v in values),
                          key=lambda nv: (nv[1], nv[0] not in PREFER)))
            for name, values in enums.items())

    # structs

    def struct_fields(self, name):
        """[(C path, token, field name, array length expression)]"""
        fields = []
        if name in STRUCT_FIELDS:
            members = {m[0]: m for m in self.h.members(self.h.struct_body(name))}
            for path, token, field in STRUCT_FIELDS[name]:
                member = members.get(path)
                count = member[3] if member else ""
                if token and "*" in token:
                    token, count = token.split("*")
                if path == "frame.pArray":
                    token, count = "ptr", "3"
                field = field or path.replace(".", "_")
                token = token or FIELD_TYPES.get((name, field)) or \
                    self.member_token(name, path, member)
                fields.append((path, token, field, count))
            return fields
        for path, ctype, stars, count in self.h.members(self.h.struct_body(name)):
            field = path.replace(".", "_")
            if SKIP_FIELDS.match(path.split(".")[-1]):
                continue
            token = FIELD_TYPES.get((name, field))
            if not token:
                token = "hostptr" if field in HOST_FIELDS else self.token(ctype, stars)
            fields.append((path, token, field, count))
        return fields

    def member_token(self, name, path, member):
        if member:
            return self.token(member[1], member[2])
        # Inside a union: find the innermost declaration by walking the text.
        body = self.h.struct_body(name)
        for part in path.split("."):
            decl = self.find_member(body, part)
            if isinstance(decl, str):
                body = decl
                continue
            ctype, stars = decl
            body = self.h.struct_body(ctype)
        return self.token(ctype, stars)

    def find_member(self, body, wanted):
        """The body of a nested struct, or (C type, stars) of a plain member; looks into unions."""
        for m in re.finditer(r"(struct|union) ?\w* ?\{", body):
            depth_before = body[:m.start()].count("{") - body[:m.start()].count("}")
            if depth_before:
                continue
            end = self.h.closing(m.end() - 1, body)
            name = re.match(r"\} ?(\w*) ?;", body[end:]).group(1)
            inner = body[m.end():end]
            if name == wanted:
                return inner
            if not name:
                found = self.find_member(inner, wanted)
                if found:
                    return found
        outer = body
        while "{" in outer:
            outer = re.sub(r"(struct|union) ?\w* ?\{[^{}]*\} ?\w* ?;", "", outer)
        m = re.search(r"(?:const )?([\w ]+?) ?([* ]*?) ?\b%s ?(?:\[[^\]]*\])? ?;" % wanted, outer)
        return (m.group(1).strip(), m.group(2).count("*")) if m else None

    def reachable_structs(self):
        """Structs that rows or other structs name, those that others contain first."""
        self.rows()
        order, seen = [], set()

        def visit(name):
            if name in seen or name in BYTES_TYPES or not self.h.struct_body(name):
                return
            seen.add(name)
            for _, token, _, _ in self.struct_fields(name):
                self.use(token)
                visit(token)
            order.append(name)

        for token in list(self.used) + EXTRA_STRUCTS:
            visit(token)
        sizes = self.h.evaluate(["sizeof(%s)" % s for s in order])
        return [(s, sizes["sizeof(%s)" % s]) for s in order
                if sizes["sizeof(%s)" % s] <= STRUCT_MAX]

    def struct_table(self):
        """Ordered name -> (size, [(offset, token, field, count)])"""
        table = collections.OrderedDict()
        structs = [(s, size, self.struct_fields(s)) for s, size in self.reachable_structs()]
        exprs = ["offsetof(%s, %s)" % (s, f[0]) for s, _, fields in structs for f in fields]
        exprs += ["(%s)" % f[3] for _, _, fields in structs for f in fields if f[3]]
        value = self.h.evaluate(list(dict.fromkeys(exprs)))
        for s, size, fields in structs:
            rows = [(value["offsetof(%s, %s)" % (s, path)], token, field,
                     value["(%s)" % count] if count else 1) for path, token, field, count in fields]
            if rows:
                table[s] = (size, rows)
        return table


# ---- printing ----

def is_flags(enum):
    return enum in FLAG_ENUMS or (enum in MACRO_ENUMS and enum.endswith("_flags"))


def wrap(head, items, tail, indent="\t", width=100):
    lines, line = [], head
    for item in items:
        if len(line.expandtabs(8)) + 1 + len(item) + len(tail) > width and line.strip():
            lines.append(line.rstrip())
            line = indent + item
        else:
            line += ("" if line.endswith("(") else " ") + item
    return "\n".join(lines + [line + tail])


API_HEAD = SPDX + """/*
 * FN(symbol, class, op, since, args)
 *   symbol  as exported by libcuda.so.1
 *   class   id of cuda_classes.def
 *   op      id of cuda_ops.def
 *   since   first CUDA version with this form (cudaTypedefs.h), 1000 * major + 10 * minor
 *   args    one item each, no commas between:
 *           IN(type, name) OUT(type, name) INOUT(type, name) IN_PTR(type, name)
 *           IN_STR(name) OUT_STR(name) OUT_PSTR(name)
 *           IN_ARR(type, name, count_arg) OUT_ARR(type, name, count_arg)
 *           or NOARGS
 *
 * INOUT is also for what a call writes when it fails (which node, which copy). A count_arg is never
 * a pointer: arrays whose number is behind one are IN(ptr, name).
 *
 * Two kinds of IN are not in an integer register, so their word is not the argument's position:
 *   float   in a vector register; always after the integer arguments in this API
 *   structs over 16 bytes (CUipcMemHandle, CUipcEventHandle, CUeglFrame): on x86-64 in the stack
 *           area and no register is used up, on arm64 as a pointer to a copy
 *
 * Order: topics as in cuda.h, all forms of a function together, oldest first. Forms without a
 * version suffix that have one beside them take 32-bit device addresses and sizes (CUDA < 3.2).
 */
"""


def print_api(draft):
    print(API_HEAD, end="")
    last = None
    for symbol, cls, op, since, items in draft.rows():
        name = public_name(symbol)
        if name != last and name in SECTIONS:
            print("\n/* %s */" % SECTIONS[name])
        last = name
        print(wrap("FN(%s, %s, %s, %d," % (symbol, cls, op, since), items or ["NOARGS"], ")"))


TYPES_HEAD = SPDX + """/*
 * TYPE(token, c_name, size, kind)                 a value
 * TYPE_ENUM(token, c_name, kind, enum)            ENUM or FLAGS; 4 bytes
 * TYPE_ENUM_SZ(token, c_name, size, kind, enum)   the same in 1, 2 or 8 bytes
 * TYPE_STRUCT(token, c_name, struct)              size is the struct's
 * token is what rows of cuda_api.def and fields of cuda_structs.def write. Order: a struct's fields
 * may name any type.
 */
"""


def print_types(draft):
    h = draft.h
    structs = draft.struct_table()
    enums = draft.enum_values()
    handled = {t[0] for t in PLAIN_TYPES} | {t[0] for t in SIZED_ENUMS}
    sizes = h.evaluate(["sizeof(%s)" % t for t in draft.used
                        if t not in handled and t not in draft.macro_enums])
    print(TYPES_HEAD, end="")
    for token, cname, size, kind, comment in PLAIN_TYPES:
        print("TYPE(%s, \"%s\", %d, %s)%s" % (token, cname, size, kind,
                                              comment and " /* %s */" % comment))
    print("\n/* Handles and addresses */")
    for token in sorted(t for t in draft.used if t not in handled and t not in enums and
                        t not in structs):
        size = sizes["sizeof(%s)" % token]
        kind = "BYTES" if token in BYTES_TYPES else DECIMAL_TYPES.get(token, "HEX")
        print("TYPE(%s, \"%s\", %d, %s)" % (token, token, size, kind))
    print("\n/* Enums. Where prototypes have an unsigned int, that is the C name. */")
    declared = h.declared_types()
    for name in enums:
        kind = "FLAGS" if is_flags(name) else "ENUM"
        cname = name if name in declared else "unsigned int"
        print(wrap("TYPE_ENUM(", ["%s," % name, "\"%s\"," % cname, kind + ",", name], ")"))
    for token, cname, size, enum in SIZED_ENUMS:
        kind = "FLAGS" if is_flags(enum) else "ENUM"
        print(wrap("TYPE_ENUM_SZ(", ["%s," % token, "\"%s\"," % cname, "%d," % size, kind + ",",
                                     enum], ")"))
    print("\n/* Structs */")
    for name in structs:
        print(wrap("TYPE_STRUCT(", [name + ",", "\"%s\"," % name, name], ")"))


def print_enums(draft):
    print(SPDX + "/* ENUM_BEGIN(name) VALUE(name, value)... ENUM_END(name): ascending by value, "
          "aliases after the\n * name that is printed. Counters and masks that no argument holds "
          "are left out. */")
    for name, values in draft.enum_values().items():
        if name in draft.macro_enums and name == next(iter(draft.macro_enums)):
            print("\n/* Macros in the headers; the names of these tables are ours. */")
        flags = is_flags(name)
        print("\nENUM_BEGIN(%s)" % name)
        for value_name, value in values:
            print("VALUE(%s, %s)" % (value_name, hex(value) if flags and value > 9 else value))
        print("ENUM_END(%s)" % name)


def print_structs(draft):
    print(SPDX + "/* STRUCT_BEGIN(name, size) FIELD(offset, type, name) "
          "FIELD_ARR(offset, type, name, count)...\n * STRUCT_END(name): offsets and sizes in "
          "bytes for 64-bit systems, as a compiler lays them out\n * (tools/cuda-api-draft.py "
          "prints them). Reserved fields are left out; of a union, the member that\n * tells most "
          "in the fewest fields. */")
    for name, (size, fields) in draft.struct_table().items():
        print("\nSTRUCT_BEGIN(%s, %d)" % (name, size))
        for off, token, field, count in fields:
            if count > 1:
                print("FIELD_ARR(%d, %s, %s, %d)" % (off, token, field, count))
            else:
                print("FIELD(%d, %s, %s)" % (off, token, field))
        print("STRUCT_END(%s)" % name)


# ---- comparing ----

def read_def(path):
    """Top-level macro calls of a .def file: [(macro, [argument])]"""
    with open(path) as f:
        text = re.sub(r"/\*.*?\*/", " ", f.read(), flags=re.S)
    text = re.sub(r"^#(.*\\\n)*.*$", "", text, flags=re.M)
    calls, pos = [], 0
    while True:
        m = re.compile(r"\s*(\w+)\(").match(text, pos)
        if not m:
            return calls
        depth, start, args = 1, m.end(), []
        for i in range(m.end(), len(text)):
            depth += {"(": 1, ")": -1}.get(text[i], 0)
            if (text[i] == "," and depth == 1) or depth == 0:
                args.append(" ".join(text[start:i].split()))
                start = i + 1
            if depth == 0:
                pos = i + 1
                break
        calls.append((m.group(1), args))


class Diff:
    def __init__(self, draft, def_dir):
        self.draft, self.h, self.dir = draft, draft.h, def_dir
        self.found = 0

    def report(self, text, *args):
        self.found += 1
        print(text % args)

    def load(self, name):
        return read_def(os.path.join(self.dir, name))

    def run(self):
        self.structs()
        self.types()
        self.enums()
        self.functions()
        return self.found

    def types(self):
        self.size = {}
        for macro, a in self.load("cuda_types.def"):
            if macro == "TYPE_STRUCT":
                self.size[a[0]] = self.struct_size.get(a[2], 0)
            else:
                self.size[a[0]] = 4 if macro == "TYPE_ENUM" else int(a[2])

    def structs(self):
        self.struct_size, kept, current = {}, {}, None
        for macro, a in self.load("cuda_structs.def"):
            if macro == "STRUCT_BEGIN":
                current = kept[a[0]] = {}
                self.struct_size[a[0]] = int(a[1])
            elif macro.startswith("FIELD"):
                current[a[2]] = (int(a[0]), int(a[3]) if macro == "FIELD_ARR" else 1)
        table = self.draft.struct_table()
        for name in sorted(set(table) | set(kept)):
            if name not in kept:
                self.report("struct %s: not in cuda_structs.def", name)
            elif name not in table:
                self.report("struct %s: not in the headers", name)
            else:
                size, fields = table[name]
                if size != self.struct_size[name]:
                    self.report("struct %s: size %d, header %d", name, self.struct_size[name], size)
                fields = {f: (off, count) for off, _, f, count in fields}
                for f in sorted(set(fields) | set(kept[name])):
                    if fields.get(f) != kept[name].get(f):
                        self.report("struct %s: field %s at (offset, count) %s, header %s", name, f,
                                    kept[name].get(f, "none"), fields.get(f, "none"))

    def enums(self):
        kept, current = {}, None
        for macro, a in self.load("cuda_enums.def"):
            if macro == "ENUM_BEGIN":
                current = kept[a[0]] = {}
            elif macro == "VALUE":
                current[a[0]] = int(a[1], 0)
        table = {n: dict(v) for n, v in self.draft.enum_values().items()}
        for name in sorted(set(table) | set(kept)):
            ours, theirs = kept.get(name, {}), table.get(name, {})
            if not ours or not theirs:
                self.report("enum %s: not in %s", name,
                            "the headers" if ours else "cuda_enums.def")
                continue
            for v in sorted(set(ours) | set(theirs)):
                if ours.get(v) != theirs.get(v):
                    self.report("enum %s: %s is %s, header %s", name, v, ours.get(v, "missing"),
                                theirs.get(v, "missing"))

    def functions(self):
        kept = {a[0]: a for macro, a in self.load("cuda_api.def") if macro == "FN"}
        ctypes = sorted({a.ctype for args in self.h.funcs.values() for a in args
                         if a.ctype != "void"})
        sizes = self.h.evaluate(["sizeof(%s)" % c for c in ctypes])
        self.csize = {c: sizes["sizeof(%s)" % c] for c in ctypes}
        for symbol in self.h.funcs:
            if symbol not in kept:
                self.report("%s: no row in cuda_api.def", symbol)
        for symbol, row in kept.items():
            if symbol not in self.h.funcs:
                self.report("%s: not in the headers", symbol)
                continue
            since = self.h.since.get(symbol, 0)
            if since and int(row[3]) != since:
                self.report("%s: since %s, header %d", symbol, row[3], since)
            items = re.findall(r"(\w+)\(([^)]*)\)", ", ".join(row[4:]))
            args = self.h.funcs[symbol]
            if len(items) != len(args):
                self.report("%s: %d arguments, header %d", symbol, len(items), len(args))
                continue
            for (macro, inner), arg in zip(items, args):
                self.argument(symbol, macro, [i.strip() for i in inner.split(",")], arg)

    def argument(self, symbol, macro, inner, arg):
        strings = macro in ("IN_STR", "OUT_STR", "OUT_PSTR")
        token, name = (None, inner[0]) if strings else (inner[0], inner[1])
        if name != arg.name:
            self.report("%s: argument %s, header %s", symbol, name, arg.name)
        if strings:
            want = 2 if macro == "OUT_PSTR" else 1
            if arg.ctype != "char" or arg.stars != want:
                self.report("%s: %s is no string in the header", symbol, name)
            return
        have = self.size.get(token)
        if have is None:
            self.report("%s: %s has unknown type %s", symbol, name, token)
        elif macro == "IN":
            want = 8 if arg.stars else self.csize[arg.ctype]
            if have != want:
                self.report("%s: %s is %d bytes, header %d", symbol, name, have, want)
        elif not arg.stars:
            self.report("%s: %s is no pointer in the header", symbol, name)
        elif not (arg.stars == 1 and arg.ctype in ("void", "char")):
            want = 8 if arg.stars > 1 else self.csize[arg.ctype]
            if have != want:
                self.report("%s: %s points to %d bytes, header %d", symbol, name, have, want)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-I", "--include", default="/usr/local/cuda/include",
                        help="folder of cuda.h (default: %(default)s)")
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"), help="C compiler")
    sub = parser.add_subparsers(dest="verb", required=True)
    draft = sub.add_parser("draft", help="print a table")
    draft.add_argument("table", choices=["api", "types", "enums", "structs"])
    diff = sub.add_parser("diff", help="compare the tables with the headers")
    diff.add_argument("--def-dir", default=os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                        "..", "src", "decode"))
    args = parser.parse_args()
    try:
        headers = Headers(args.include, args.cc)
    except (OSError, subprocess.CalledProcessError) as e:
        why = e if isinstance(e, OSError) else "the compiler failed"
        sys.stderr.write("cannot read the CUDA headers in %s: %s (see -I)\n" % (args.include, why))
        return 2
    tables = Draft(headers)
    if args.verb == "draft":
        {"api": print_api, "types": print_types, "enums": print_enums,
         "structs": print_structs}[args.table](tables)
        return 0
    found = Diff(tables, args.def_dir).run()
    if found:
        print("%d differences" % found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
