// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
import java.util.Arrays;
import sun.misc.Signal;

/** As late.c, in Java: threads that launch, allocate, sort, and catch exceptions, for which the JVM handles SIGSEGV. */
public class Late {
	static native void load();
	static native boolean call(int n, int k);
	static native long launches();

	static volatile boolean stop;
	static String none;

	static int length(String s) {
		try {
			return s.length();
		} catch (NullPointerException e) {
			return -1;
		}
	}

	static void work(int k, int[] calls) {
		while (!stop) {
			if (!call(++calls[k], k))
				die("a call failed, or errno was changed");
			int[] numbers = new int[2000];
			for (int i = 0; i < numbers.length; i++)
				numbers[i] = (i * 7919) % 2003;
			Arrays.sort(numbers);
			for (int i = 1; i < numbers.length; i++)
				if (numbers[i - 1] > numbers[i])
					die("not sorted");
			if (length(none) != -1)
				die("no exception");
		}
	}

	static void die(String why) {
		System.err.println(why);
		Runtime.getRuntime().halt(1);
	}

	public static void main(String[] args) throws InterruptedException {
		System.load(args[0]);
		load();
		int[] calls = new int[4];
		Thread[] threads = new Thread[3];
		Signal.handle(new Signal("TERM"), s -> stop = true);
		for (int k = 1; k <= 3; k++) {
			int thread = k;
			threads[k - 1] = new Thread(() -> work(thread, calls));
			threads[k - 1].start();
		}
		System.out.println("ready");
		for (Thread t : threads)
			t.join();
		if (launches() != calls[1] + calls[2] + calls[3])
			die("launches are missing");
		for (int k = 1; k <= 3; k++)
			System.out.println(k + " " + calls[k]);
	}
}
