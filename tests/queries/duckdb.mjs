// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// See duckdb.sh.
import { readFileSync } from 'node:fs';
import { DuckDBInstance } from '@duckdb/node-api';

const db = await (await DuckDBInstance.create()).connect();
const rows = {};
for (const [name, query] of Object.entries(JSON.parse(readFileSync(0, 'utf8')))) {
	try {
		rows[name] = (await db.runAndReadAll(query)).getRowObjects();
	} catch (e) {
		rows[name] = String(e.message ?? e);
	}
}
console.log(JSON.stringify(rows, (_, v) => (typeof v === 'bigint' ? Number(v) : v)));
