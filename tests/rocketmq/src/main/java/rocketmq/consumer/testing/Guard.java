package rocketmq.consumer.testing;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/**
 * Runs another main class and ends the JVM at once when standard input closes.
 *
 * <p>A test process that is killed cannot clean up after itself, but the kernel closes its pipes: so a
 * broker that was started through this class never outlives the test that needed it. The end is a halt,
 * without shutdown hooks: a broker needs 8 seconds for those, and nobody is left who would read its store.
 */
public final class Guard {
    private Guard() {
    }

    /** {@code Guard <main class> [argument]...} */
    public static void main(String[] args) throws Throwable {
        if (args.length == 0) {
            System.err.println("usage: Guard <main class> [argument]...");
            System.exit(2);
        }
        haltWhenStandardInputCloses();
        try {
            Class.forName(args[0])
                .getMethod("main", String[].class)
                .invoke(null, (Object) Arrays.copyOfRange(args, 1, args.length));
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    private static void haltWhenStandardInputCloses() {
        Thread watch = new Thread(() -> {
            byte[] ignored = new byte[64];
            try {
                while (System.in.read(ignored) >= 0) {
                    // What is written here has no meaning; only the end has.
                }
            } catch (IOException e) {
                // An unreadable pipe is as good as a closed one.
            }
            Runtime.getRuntime().halt(0);
        }, "guard");
        watch.setDaemon(true);
        watch.start();
    }
}
