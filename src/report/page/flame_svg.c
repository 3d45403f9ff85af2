/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The flame graph as a standalone SVG: root at the top, one row per level, widths are time. Its
 * script zooms on click (or Enter) and marks search results; without scripts the whole graph is
 * visible.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/losses_text.h"
#include "text/table.h"
#include "stacks.h"
#include "util/out.h"

#define WIDTH	1200
#define ROW	22
#define TOP	60
#define CHAR_PX 6.7
#define MIN_PX	0.1

static const char *const colours[CLASS_CNT] = {
#define CLASS(id, name, TYPE, type, detail, queries, chrome, flame, text) [CLASS_##id] = flame,
#include "decode/cuda_classes.def"
#undef CLASS
};

struct svg {
	struct out *o;
	uint64_t total_ns;
};

static void put_xml(struct out *o, const char *s, size_t len)
{
	for (; len--; s++) {
		if (*s == '<')
			out_lit(o, "&lt;");
		else if (*s == '>')
			out_lit(o, "&gt;");
		else if (*s == '&')
			out_lit(o, "&amp;");
		else if (*s == '"')
			out_lit(o, "&quot;");
		else
			out_char(o,
				 (unsigned char)*s < ' ' || (unsigned char)*s >= 0x7f ? '?' : *s);
	}
}

static void put_rect(struct svg *v, const char *name, int depth, uint64_t at_ns, uint64_t ns,
		     uint64_t cnt, const char *colour)
{
	double x = WIDTH * (double)at_ns / v->total_ns, w = WIDTH * (double)ns / v->total_ns;
	size_t len = strlen(name), fits = w / CHAR_PX > 2 ? (size_t)(w / CHAR_PX) - 1 : 0;
	char text[256];

	if (w < MIN_PX)
		return;
	snprintf(text, sizeof(text),
		 "<g tabindex=\"0\" data-x=\"%.4f\" data-w=\"%.4f\" data-d=\"%d\"><title>", x, w,
		 depth);
	out_str(v->o, text);
	put_xml(v->o, name, len);
	snprintf(text, sizeof(text), "\n%s in %s, %.2f %%</title>", HUMAN_TIME(ns),
		 HUMAN_NOUNS(cnt, "call"), 100.0 * ns / v->total_ns);
	for (char *p = text; *p; p++) /* "µs" is two bytes of UTF-8: copied unchanged */
		out_char(v->o, *p);
	snprintf(text, sizeof(text),
		 "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" rx=\"2\" fill=\"%s\"/>"
		 "<text x=\"%.2f\" y=\"%d\">",
		 x, TOP + depth * ROW, w, ROW - 1, colour, x + 4, TOP + depth * ROW + 15);
	out_str(v->o, text);
	if (fits >= len) {
		put_xml(v->o, name, len);
	} else if (fits > 3) {
		put_xml(v->o, name, fits - 2);
		out_lit(v->o, "..");
	}
	out_lit(v->o, "</text></g>\n");
}

/* Draws one level of stacks with the same frames up to depth: [0, cnt), from at_ns on. */
static void put_level(struct svg *v, const struct folded_stack *f, unsigned cnt, int depth,
		      uint64_t at_ns)
{
	for (unsigned i = 0; i < cnt;) {
		uint64_t ns = 0, calls = 0;
		unsigned n = i;

		if (!f[i].frames[depth]) {
			at_ns += f[i++].total_ns;
			continue;
		}
		for (; n < cnt && f[n].frames[depth] &&
		       !strcmp(f[n].frames[depth], f[i].frames[depth]);
		     n++) {
			ns += f[n].total_ns;
			calls += f[n].cnt;
		}
		put_rect(v, f[i].frames[depth], depth + 1, at_ns, ns, calls,
			 depth < 2 ? "#c9ced6" : colours[f[i].class] ?: "#9fb3c8");
		if (depth + 1 < STACK_DEPTH)
			put_level(v, f + i, n - i, depth + 1, at_ns);
		at_ns += ns;
		i = n;
	}
}

static const char script[] =
	"<script><![CDATA[\n"
	"const W="
	"1200"
	",C=6.7,gs=[...document.querySelectorAll('g[data-w]')];\n"
	"const full=g=>g.querySelector('title').textContent.split('\\n')[0];\n"
	"function draw(x0,w0,d0){for(const g of gs){const x=+g.dataset.x,w=+g.dataset.w,d=+g.dataset.d;\n"
	" const up=d<d0&&x<=x0+1e-6&&x+w>=x0+w0-1e-6,seen=up||(d>=d0&&x>=x0-1e-6&&x+w<=x0+w0+1e-6);\n"
	" g.style.display=seen?'':'none';if(!seen)continue;\n"
	" const nx=up?0:(x-x0)*W/w0,nw=up?W:w*W/w0,r=g.querySelector('rect'),t=g.querySelector('text');\n"
	" r.setAttribute('x',nx);r.setAttribute('width',nw);t.setAttribute('x',nx+4);\n"
	" const n=full(g),k=Math.floor(nw/C)-1;t.textContent=k>=n.length?n:k>3?n.slice(0,k-2)+'..':'';\n"
	" g.style.opacity=up?0.6:1}}\n"
	"for(const g of gs){const z=()=>draw(+g.dataset.x,+g.dataset.w,+g.dataset.d);\n"
	" g.addEventListener('click',z);g.addEventListener('keydown',e=>{if(e.key==='Enter')z()})}\n"
	"const box=document.getElementById('search');\n"
	"function search(q){let ns=0;q=q.toLowerCase();for(const g of gs){\n"
	" const hit=q&&full(g).toLowerCase().includes(q);g.querySelector('rect').style.stroke=hit?'#d0021b':'';\n"
	" g.querySelector('rect').style.strokeWidth=hit?2:''}}\n"
	"document.getElementById('find').addEventListener('click',()=>{const q=prompt('Find in names:');\n"
	" if(q!==null)search(q)});\n"
	"addEventListener('keydown',e=>{if(e.key==='Escape'){draw(0,W,0);search('')}});\n"
	"]]></script>\n";

static void put_losses(const struct report *r, struct out *o)
{
	char text[160];

	if (!losses_line(&r->lost, text, sizeof(text)))
		return;
	out_lit(o,
		"<text x=\"4\" y=\"53\" fill=\"#b00020\" font-weight=\"600\">INCOMPLETE, missing: ");
	put_xml(o, text, strlen(text));
	out_lit(o, "</text>\n");
}

void flame_svg(const struct report *r, struct out *o)
{
	const struct folded_stack *f;
	struct svg v = {.o = o};
	char head[1024];
	uint64_t calls = 0;
	unsigned cnt;

	f = stacks_folded(r, &cnt);
	for (unsigned i = 0; i < cnt; i++) {
		v.total_ns += f[i].total_ns;
		calls += f[i].cnt;
	}
	snprintf(
		head, sizeof(head),
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
		"height=\"%d\" font-family=\"system-ui,sans-serif\" font-size=\"12\">\n"
		"<style>rect{stroke:#fff;stroke-width:.5}text{pointer-events:none}g{cursor:pointer}"
		"g:focus rect{stroke:#000;stroke-width:2}#find{cursor:pointer;fill:#1a5fb4}</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
		"<text x=\"4\" y=\"20\" font-size=\"16\" font-weight=\"600\">Time in CUDA calls: %s</text>\n"
		"<text x=\"4\" y=\"40\" fill=\"#555\">process, stage, class, function, kernel; click to "
		"zoom, Escape to go back</text>\n<text id=\"find\" x=\"%d\" y=\"20\" "
		"text-anchor=\"end\">find</text>\n",
		WIDTH, TOP + 7 * ROW, WIDTH, TOP + 7 * ROW, HUMAN_TIME(v.total_ns), WIDTH - 8);
	out_str(o, head);
	put_losses(r, o);
	if (v.total_ns) {
		put_rect(&v, "all", 0, 0, v.total_ns, calls, "#dfe3e8");
		put_level(&v, f, cnt, 0, 0);
		out_str(o, script);
	}
	out_lit(o, "</svg>\n");
}
