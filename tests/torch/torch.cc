/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Mocks of libtorch_cpu, libc10 and libtorch_python: functions with the names that PyTorch
 * exports, and operators that call them as PyTorch's do: at::_ops::X::call() asks for callbacks
 * once, then calls what does the work. TORCH_CPU, C10 or TORCH_PYTHON chooses the library.
 */
#include <cstddef>
#include <cstdint>

#define API	 __attribute__((visibility("default")))
#define NOINLINE __attribute__((noinline))
/* Nothing may be a jump instead of a call. */
#define STAYS() __asm__ volatile("" ::: "memory")

#ifdef C10
namespace c10
{
struct Device {
	int8_t type, index;
};
API NOINLINE void reportMemoryUsageToProfiler(void *, long, size_t, size_t, Device)
{
	STAYS();
}
#ifndef OLD
API NOINLINE void reportOutOfMemoryToProfiler(long, size_t, size_t, Device)
{
	STAYS();
}
#endif
} // namespace c10
#endif

#ifdef TORCH_PYTHON
namespace at
{
class TensorBase;
}
API NOINLINE void THPVariable_Wrap(const at::TensorBase &)
{
	STAYS();
}
#endif

#ifdef TORCH_CPU
struct Callbacks {
	char room[120];
	bool has;
	API ~Callbacks();
};
NOINLINE Callbacks::~Callbacks()
{
	STAYS();
}

namespace at
{
enum class RecordScope : uint8_t { FUNCTION, BACKWARD_FUNCTION };
API NOINLINE Callbacks getStepCallbacksUnlessEmpty(RecordScope)
{
	Callbacks c;

	c.has = false;
	STAYS();
	return c;
}
namespace sequence_number
{
static uint64_t next = 100;
API NOINLINE uint64_t get_and_increment()
{
	return __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
}
} // namespace sequence_number
} // namespace at

namespace c10
{
struct OperatorHandle {
	void *room[3];
};
struct Dispatcher {
	/* What an operator is called. */
	API NOINLINE OperatorHandle findSchemaOrThrow(const char *, const char *);
};
OperatorHandle Dispatcher::findSchemaOrThrow(const char *, const char *)
{
	STAYS();
	return {};
}
} // namespace c10

typedef void (*Work)(void *);

/* As PyTorch's: the name is looked up by another function, the first time. */
#define OPERATOR(X, NAME, OVERLOAD)                                                                \
	static NOINLINE void lookup_##X(c10::Dispatcher *d)                                        \
	{                                                                                          \
		d->findSchemaOrThrow(NAME, OVERLOAD);                                              \
		STAYS();                                                                           \
	}                                                                                          \
	struct X {                                                                                 \
		API static NOINLINE void call(Work work, void *arg);                               \
	};                                                                                         \
	void X::call(Work work, void *arg)                                                         \
	{                                                                                          \
		static bool known;                                                                 \
		c10::Dispatcher d;                                                                 \
                                                                                                   \
		if (!known)                                                                        \
			lookup_##X(&d);                                                            \
		known = true;                                                                      \
		Callbacks c = getStepCallbacksUnlessEmpty(RecordScope::FUNCTION);                  \
		if (work)                                                                          \
			work(arg);                                                                 \
		STAYS();                                                                           \
	}

namespace at
{
namespace _ops
{
OPERATOR(outer, "aten::outer", "")
OPERATOR(inner_Tensor, "aten::inner", "Tensor")
OPERATOR(add__Scalar, "aten::add_", "Scalar")
OPERATOR(empty_memory_format, "aten::empty", "memory_format")
} // namespace _ops
} // namespace at

namespace torch
{
namespace autograd
{
struct API Node {
	API virtual ~Node();
	void *self[2];
	uint64_t sequence_nr;
};
Node::~Node()
{
}
struct GraphTask;
struct InputBuffer;
struct ReadyQueue;
struct API AccumulateGrad : Node {
	API ~AccumulateGrad() override;
};
AccumulateGrad::~AccumulateGrad()
{
}
namespace generated
{
struct API AddmmBackward0 : Node {
	API ~AddmmBackward0() override;
};
AddmmBackward0::~AddmmBackward0()
{
}
} // namespace generated
} // namespace autograd
} // namespace torch

namespace std
{
template <typename T> class shared_ptr
{
	T *p, *q;
};
} // namespace std

namespace torch
{
namespace autograd
{
struct Engine {
	API NOINLINE void evaluate_function(std::shared_ptr<GraphTask> &, Node *, InputBuffer &,
					    const std::shared_ptr<ReadyQueue> &);
	Work work;
	void *arg;
};
void Engine::evaluate_function(std::shared_ptr<GraphTask> &, Node *, InputBuffer &,
			       const std::shared_ptr<ReadyQueue> &)
{
	/* The node's own scope: no operator. */
	Callbacks c = at::getStepCallbacksUnlessEmpty(at::RecordScope::BACKWARD_FUNCTION);

	if (work)
		work(arg);
	STAYS();
}
} // namespace autograd
} // namespace torch

/* For the program. kind 0: AddmmBackward0, 1: AccumulateGrad; else node is an address. */
extern "C" API void run_node(uint64_t node, uint64_t seq, Work work, void *arg)
{
	static torch::autograd::generated::AddmmBackward0 addmm;
	static torch::autograd::AccumulateGrad accumulate;
	torch::autograd::Engine e = {work, arg};
	torch::autograd::Node *n = node == 0   ? &addmm
				   : node == 1 ? &accumulate
					       : (torch::autograd::Node *)node;
	char none[64] = {0};

	if (node <= 1)
		n->sequence_nr = seq;
	e.evaluate_function(*(std::shared_ptr<torch::autograd::GraphTask> *)none, n,
			    *(torch::autograd::InputBuffer *)none,
			    *(std::shared_ptr<torch::autograd::ReadyQueue> *)none);
}
#endif
