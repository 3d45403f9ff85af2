/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names with any bytes: of kernels and of the thread. All must be valid JSON in the trace. */
#include "case.h"

#define TWICE8 "IN1acvT_IN1acvT_IN1acvT_IN1acvT_IN1acvT_IN1acvT_IN1acvT_IN1acvT_"
#define ENDS8  "EEEEEEEEEEEEEEEE"

static const char *const names[] = {
	"quote\"quote",
	"back\\slash\\",
	"new\nline\ttab\rreturn",
	"control\x01\x02\x1f\x7f",
	"invalid\xff\xfe\xc3(",
	"overlong\xc0\xaf",
	"surrogate\xed\xa0\x80",
	"cut\xf0\x9f\x98",
	"emoji\xf0\x9f\x98\x80.",
	"{\"ts\":1,\"type\":\"forged\"}",
	"</script><script>alert(1)</script>",
	"\xe2\x80\xa8line\xe2\x80\xa9separators",
	"%s%n%d",
	"\x1b[31mred",
	"_ZN",
	"_Z1fIXLi",
	/* GCC 12's demangler never returns for these, or needs 2^24 steps: src/util/demangle.h. */
	"_Z1fDTsr1aC",
	"_Z1fIXsrccC",
	"_Zdt3S_vAsrccC",
	"_ZcvT_" TWICE8 TWICE8 TWICE8 "IiE" ENDS8 ENDS8 ENDS8,
	" ",
};
#define CNT (sizeof(names) / sizeof(names[0]))

int main(void)
{
	static char image[4096] = "FAKE";
	size_t len = 5;
	handle m, f;
	char hex[512];
	int r;

	for (size_t i = 0; i < CNT; i++)
		len += sprintf(image + len, "%s", names[i]) + 1;
	pthread_setname_np(pthread_self(), "a\"b\\c\n\xff\x01{");
	case_open();
	case_sym("cuFakeNest");
	case_context();
	m = case_module(image);
	for (size_t i = 0; i < CNT; i++) {
		f = NULL;
		r = F(cuModuleGetFunction)(&f, m, names[i]);
		hex_text(names[i], hex, sizeof(hex));
		expect("cuModuleGetFunction", r,
		       "'type':'module','op':'lookup','args':{'hfunc':" HEX
		       ",'name':{'$bytes':'%s'}}",
		       H(f), hex);
		must("cuModuleGetFunction", r, 0);
		r = F(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
		expect("cuLaunchKernel", r,
		       "'type':'kernel','op':'launch','kernel':{'$bytes':'%s'}", hex);
		must("cuLaunchKernel", r, 0);
	}
	return 0;
}
