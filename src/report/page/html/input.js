// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
'use strict';
/* Wheel, pointers and keys of the timeline. */
Object.assign(timeline, {
	listen(tl) {
		const c = tl.canvas;
		/* A wheel that began to scroll the page goes on doing so when the timeline comes under it. */
		let outside = 0;
		addEventListener('wheel', e => { outside = e.target === c ? outside : e.timeStamp; }, {passive: true, capture: true});
		c.addEventListener('wheel', e => {
			if (!e.ctrlKey && e.timeStamp - outside < 300) {
				outside = e.timeStamp;
				return;
			}
			e.preventDefault();
			timeline.wheel(tl, e);
		}, {passive: false});
		c.addEventListener('pointerdown', e => timeline.press(tl, e));
		c.addEventListener('pointermove', e => timeline.move(tl, e));
		for (const name of ['pointerup', 'pointercancel'])
			c.addEventListener(name, e => timeline.release(tl, e));
		c.addEventListener('pointerleave', () => timeline.hovered(tl, null));
		c.addEventListener('dblclick', e => {
			const spot = timeline.hit(tl, e.offsetX, e.offsetY);
			if (spot)
				timeline.around(tl, spot.row.S[spot.i], spot.row.E[spot.i]);
		});
		c.addEventListener('keydown', e => timeline.key(tl, e));
		tl.scroller.addEventListener('scroll', () => {
			tl.scroll = tl.scroller.scrollTop;
			timeline.redraw(tl);
		});
		const jump = e => {
			const half = (tl.t1 - tl.t0) / 2, t = tl.min + e.offsetX / tl.mapWidth * (tl.max - tl.min);
			timeline.show(tl, t - half, t + half);
		};
		tl.mapCanvas.addEventListener('pointerdown', e => { tl.mapCanvas.setPointerCapture(e.pointerId); jump(e); });
		tl.mapCanvas.addEventListener('pointermove', e => e.buttons && jump(e));
		document.addEventListener('keydown', e => {
			if (e.key === '/' && !e.ctrlKey && !e.metaKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) {
				e.preventDefault();
				tl.query.focus();
			}
		});
	},

	wheel(tl, e) {
		const unit = e.deltaMode === 1 ? 30 : e.deltaMode === 2 ? 400 : 1, scale = (tl.t1 - tl.t0) / tl.width;
		if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY))
			timeline.pan(tl, (e.deltaX || e.deltaY) * unit * scale);
		else
			timeline.zoom(tl, Math.exp(Math.max(-240, Math.min(240, e.deltaY * unit)) * (e.ctrlKey ? 0.012 : 0.0025)), tl.t0 + e.offsetX * scale);
	},

	press(tl, e) {
		if (e.button)
			return;
		tl.canvas.setPointerCapture(e.pointerId);
		tl.pointers.set(e.pointerId, {x: e.offsetX, y: e.offsetY});
		tl.dragged = tl.pointers.size > 1;
	},

	move(tl, e) {
		const p = tl.pointers.get(e.pointerId), scale = (tl.t1 - tl.t0) / tl.width;
		if (!p) {
			if (e.pointerType === 'mouse')
				timeline.hovered(tl, timeline.hit(tl, e.offsetX, e.offsetY), e.clientX, e.clientY);
			return;
		}
		const x = e.offsetX, y = e.offsetY;
		if (tl.pointers.size === 2) {
			const other = [...tl.pointers].find(([id]) => id !== e.pointerId)[1];
			const before = Math.max(8, Math.abs(p.x - other.x)), after = Math.max(8, Math.abs(x - other.x));
			timeline.zoom(tl, before / after, tl.t0 + (x + other.x) / 2 * scale);
		} else if (tl.dragged || Math.hypot(x - p.x, y - p.y) > 4) {
			tl.dragged = true;
			timeline.hovered(tl, null);
			timeline.pan(tl, (p.x - x) * scale);
			if (e.pointerType === 'mouse')
				tl.scroller.scrollTop += p.y - y;
		} else {
			return;
		}
		tl.pointers.set(e.pointerId, {x, y});
	},

	release(tl, e) {
		if (tl.pointers.delete(e.pointerId) && !tl.dragged && e.type === 'pointerup')
			timeline.select(tl, timeline.hit(tl, e.offsetX, e.offsetY));
	},

	/* The event before or after the selected one in its row; the first that is shown when there is none. */
	neighbour(tl, by) {
		let spot = tl.selected;
		if (spot) {
			const i = spot.i + by;
			spot = i >= 0 && i < spot.row.n ? {...spot, i} : spot;
		} else {
			for (const lane of tl.lanes) {
				const row = lane.rows[0], i = row ? draw.from(row, tl.t0) : 0;
				if (row && i < row.n) {
					spot = {lane, row, r: 0, i};
					break;
				}
			}
		}
		if (!spot)
			return;
		const {row, i} = spot;
		if (row.E[i] < tl.t0 || row.S[i] > tl.t1)
			timeline.pan(tl, (row.S[i] + row.E[i]) / 2 - (tl.t0 + tl.t1) / 2);
		timeline.select(tl, spot);
	},

	key(tl, e) {
		const span = tl.t1 - tl.t0;
		const keys = {
			ArrowLeft: () => timeline.pan(tl, -span * 0.15), ArrowRight: () => timeline.pan(tl, span * 0.15),
			ArrowUp: () => { tl.scroller.scrollTop -= ROW * 2; }, ArrowDown: () => { tl.scroller.scrollTop += ROW * 2; },
			'+': () => timeline.zoom(tl, 0.6), '=': () => timeline.zoom(tl, 0.6), '-': () => timeline.zoom(tl, 1 / 0.6),
			0: () => timeline.show(tl, tl.min, tl.max), Home: () => timeline.pan(tl, tl.min - tl.t0), End: () => timeline.pan(tl, tl.max - tl.t1),
			',': () => timeline.neighbour(tl, -1), '.': () => timeline.neighbour(tl, 1),
			Enter: () => tl.selected && timeline.around(tl, tl.selected.row.S[tl.selected.i], tl.selected.row.E[tl.selected.i]),
			Escape: () => timeline.select(tl, null),
		};
		if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey)
			return;
		e.preventDefault();
		keys[e.key]();
	},
});
