// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// trace_processor.js FOLDER: Perfetto's trace processor, as its page in the browser has it: engine_bundle.js and trace_processor.wasm of
// that folder. Requests come on stdin and answers go to stdout, each behind its length (32 bits, little endian).
'use strict';
const fs = require('fs'), path = require('path'), vm = require('vm');

const dir = process.argv[2];
const read = (url) => fs.readFileSync(path.join(dir, path.basename(url)));
const say = (...words) => process.stderr.write(words.join(' ') + '\n');

// What a worker of a browser has, as far as the engine asks for it.
class XMLHttpRequest {
	open(method, url) { this.url = url; }
	send() {
		const file = read(this.url);
		this.response = file.buffer.slice(file.byteOffset, file.byteOffset + file.length);
		this.status = 200;
		if (this.onload) this.onload();
	}
}
const self = { location: { href: 'file:///' } };
const context = vm.createContext({
	self, location: self.location, XMLHttpRequest, URL, TextDecoder, TextEncoder, Response, performance, setTimeout, clearTimeout,
	crypto: globalThis.crypto, console: { log: say, warn: say, error: say }, importScripts() {}, WorkerGlobalScope() {},
	fetch: async (url) => new Response(read(url), { headers: { 'Content-Type': 'application/wasm' } }),
});
context.globalThis = context;
const port = {
	postMessage(bytes) {
		const head = Buffer.alloc(4);
		head.writeUInt32LE(bytes.length);
		process.stdout.write(head);
		process.stdout.write(Buffer.from(bytes));
	},
};
vm.runInContext(read('engine_bundle.js').toString(), context);
self.onmessage({ data: port });
const own = vm.runInContext('(bytes) => new Uint8Array(bytes)', context); // of its own Uint8Array

// Ready when it has said where requests go.
let waiting = Buffer.alloc(0);
function take() {
	while (waiting.length >= 4 && waiting.length >= 4 + waiting.readUInt32LE(0)) {
		const length = waiting.readUInt32LE(0);
		port.onmessage({ data: own(waiting.subarray(4, 4 + length)) });
		waiting = waiting.subarray(4 + length);
	}
}
setImmediate(() => {
	process.stdin.on('data', (chunk) => { waiting = Buffer.concat([waiting, chunk]); take(); });
	process.stdin.on('end', () => process.exit(0));
});
