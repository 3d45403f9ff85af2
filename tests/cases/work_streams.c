/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A pipeline over five streams, each of which waits for an event of the previous one. Launches on
 * the default stream come between launches on a stream that waits for it. */
#include "work_calls.h"

#define STAGES 5
#define ROUNDS 12

int main(void)
{
	static const char ptx[] = PTX_HEAD PTX_KERNEL("_Z4stepv");
	handle f, s[STAGES], e[STAGES], blocking;

	case_open();
	case_context();
	f = case_function(case_module(ptx), "_Z4stepv", "step()");
	for (int i = 0; i < STAGES; i++) {
		s[i] = case_stream(1);
		e[i] = work_event();
	}
	/* Stage i launches i + 1 kernels a round. */
	for (int n = 0; n < ROUNDS; n++) {
		for (int i = 0; i < STAGES; i++) {
			if (i)
				work_wait_for(s[i], s[i - 1], e[i - 1]);
			for (int k = 0; k <= i; k++)
				case_launch(f, s[i], "step()");
		}
	}
	case_stream_sync(s[STAGES - 1]);
	blocking = case_stream(0);
	for (int n = 0; n < 6; n++) {
		case_launch(f, NULL, "step()");
		case_launch(f, blocking, "step()");
	}
	case_stream_sync(blocking);
	case_report("{'kernels':{'launches':192,'nodes':0,'list':[{'name':'step()','count':192,"
		    "'streams':7}]},"
		    "'streams':{'count':7,'list':["
		    "{'stream':" HEX ",'launches':60,'max_depth':60,'mean_depth':30.5,'syncs':1,"
		    "'events_recorded':0,'events_waited':12},"
		    "{'stream':" HEX ",'launches':48,'max_depth':48,'mean_depth':24.5,'syncs':0,"
		    "'events_recorded':12,'events_waited':12},"
		    "{'stream':" HEX ",'launches':36,'max_depth':36,'events_recorded':12},"
		    "{'stream':" HEX ",'launches':24,'max_depth':24,'events_recorded':12},"
		    "{'stream':" HEX ",'launches':12,'max_depth':12,'events_recorded':12,"
		    "'events_waited':0},"
		    "{'stream':" HEX ",'default':false,'flags':0,'launches':6,'syncs':1},"
		    "{'stream':'0x0','pid':%d,'default':true,'launches':6,'flags':null}],"
		    "'edges':[{'from':" HEX ",'to':" HEX ",'count':12},"
		    "{'from':" HEX ",'to':" HEX ",'count':12},"
		    "{'from':" HEX ",'to':" HEX ",'count':12},"
		    "{'from':" HEX ",'to':" HEX ",'count':12}],"
		    "'default_stream':{'launches':6,'share':0.03125,'switches':11,"
		    "'serialising':true}},"
		    "'findings':[{'id':'default-stream','lost_ns':0}]}",
		    H(s[4]), H(s[3]), H(s[2]), H(s[1]), H(s[0]), H(blocking), getpid(), H(s[0]),
		    H(s[1]), H(s[1]), H(s[2]), H(s[2]), H(s[3]), H(s[3]), H(s[4]));
	return 0;
}
