package rocketmq.consumer.testing;

import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;

/** What both peers share: lines on standard output, JSON text, CPU time, and the end when standard input closes. */
final class Peer {
    /** A shutdown that takes longer than this is cut short: the test that asked for it is waiting or gone. */
    private static final long STOP_LIMIT_MS = 10_000;

    private static final PrintStream OUT = new PrintStream(
        new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16), false, StandardCharsets.UTF_8);

    private Peer() {
    }

    /** Runs {@code stop} once when standard input closes, on SIGTERM, and on {@code System.exit}. */
    static void onStop(Runnable stop) {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            Thread limit = new Thread(() -> {
                try {
                    Thread.sleep(STOP_LIMIT_MS);
                } catch (InterruptedException e) {
                    return;
                }
                Runtime.getRuntime().halt(1);
            }, "stop-limit");
            limit.setDaemon(true);
            limit.start();
            stop.run();
        }, "stop"));
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // What is written here has no meaning; only the end has.
                }
            } catch (IOException e) {
                // An unreadable pipe is as good as a closed one.
            }
            System.exit(0);
        }, "standard-input");
        watch.setDaemon(true);
        watch.start();
    }

    static void line(String text) {
        synchronized (OUT) {
            OUT.println(text);
            OUT.flush();
        }
    }

    /** User and system time of this process, in seconds. */
    static double cpuSeconds() {
        var bean = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return bean.getProcessCpuTime() / 1e9;
    }

    static String quote(String text) {
        StringBuilder out = new StringBuilder(text.length() + 2).append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
