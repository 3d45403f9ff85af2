// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// See schema.sh, which runs this where the packages are.
import {spawnSync} from 'node:child_process';
import {existsSync, readFileSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));

function moduleOf({apiVersion, kind}) {
	for (const name of ['kubernetes-models', '@kubernetes-models/prometheus-operator'])
		if (existsSync(join(here, 'node_modules', name, apiVersion, `${kind}.js`)))
			return `${name}/${apiVersion}/${kind}`;
}

let wrong = 0;
function say(file, text) {
	console.log(`${file}: ${text}`);
	wrong++;
}

const types = [];
for (const file of process.argv.slice(2)) {
	const object = JSON.parse(readFileSync(file, 'utf8'));
	const from = moduleOf(object);

	if (!from) {
		say(file, `${object.apiVersion} has no ${object.kind}`);
		continue;
	}
	try {
		new (await import(from))[object.kind](structuredClone(object)).validate();
	} catch (e) {
		say(file, e.message);
	}
	types.push(`import type {I${object.kind} as T${types.length}} from '${from}';\n` +
		`export const o${types.length}: T${types.length} = ${JSON.stringify(object)};\n`);
}
writeFileSync(join(here, 'types.ts'), types.join(''));
const tsc = spawnSync(process.execPath, [join(here, 'node_modules/typescript/bin/tsc'), '--noEmit', '--skipLibCheck',
	'--module', 'nodenext', '--moduleResolution', 'nodenext', 'types.ts'], {cwd: here, encoding: 'utf8'});
if (tsc.status)
	say('types', tsc.stdout + tsc.stderr);
process.exit(wrong ? 1 : 0);
