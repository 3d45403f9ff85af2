// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// As late.c, in Go: goroutines that launch, allocate and sort, while the runtime interrupts them with SIGURG and collects garbage.
package main

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <errno.h>
// #include <stdint.h>
// static uint64_t (*launches)(void);
// static int (*launch)(uintptr_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uintptr_t, uintptr_t, uintptr_t);
// static int load(void)
// {
//	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
//
//	launch = lib ? dlsym(lib, "cuLaunchKernel") : 0;
//	launches = lib ? dlsym(lib, "late_launches") : 0;
//	return launch && launches;
// }
// static int call(uint32_t n, uint32_t k)
// {
//	uintptr_t f = n + 16ull * k;
//
//	errno = n % 100;
//	return !launch(f, n, k, 7, n % 1000 + 1, k, 3, n % 4096, f + 8, 0, 0) && errno == n % 100;
// }
// static uint64_t launched(void) { return launches(); }
import "C"

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
)

func main() {
	var stop int32
	var calls [4]uint32
	var wait sync.WaitGroup
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	if C.load() == 0 {
		panic("no libcuda.so.1")
	}
	for k := 1; k <= 3; k++ {
		wait.Add(1)
		go func(k int) {
			defer wait.Done()
			for atomic.LoadInt32(&stop) == 0 {
				calls[k]++
				if C.call(C.uint32_t(calls[k]), C.uint32_t(k)) == 0 {
					panic("a call failed, or errno was changed")
				}
				numbers := make([]int, 2000)
				for i := range numbers {
					numbers[i] = (i * 7919) % 2003
				}
				sort.Ints(numbers)
				if !sort.IntsAreSorted(numbers) {
					panic("not sorted")
				}
				if calls[k]%100 == 0 {
					runtime.GC()
				}
			}
		}(k)
	}
	fmt.Println("ready")
	<-end
	atomic.StoreInt32(&stop, 1)
	wait.Wait()
	if uint32(C.launched()) != calls[1]+calls[2]+calls[3] {
		panic("launches are missing")
	}
	for k := 1; k <= 3; k++ {
		fmt.Println(k, calls[k])
	}
}
