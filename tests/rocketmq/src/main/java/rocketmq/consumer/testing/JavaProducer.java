package rocketmq.consumer.testing;

import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * The Java producer as a peer of a test. Bodies are {@code <number>:} and padding; each acknowledged body is a
 * line of the file given by {@code --acknowledged}. Prints {@code {"summary":{...}}} when it ends, which it does
 * after {@code --count} messages, on SIGTERM, and when standard input closes.
 */
public final class JavaProducer {
    private JavaProducer() {
    }

    private static volatile boolean stopped;

    public static void main(String[] args) throws Exception {
        Flags flags = new Flags(args,
            Set.of("name-server", "group", "topic", "tags", "keys", "count", "rate", "size", "acknowledged"),
            Set.of());
        String topic = flags.required("topic");
        String keys = flags.text("keys", null);
        long count = flags.number("count", 1);
        long rate = flags.number("rate", 0);
        int size = (int) flags.number("size", 0);

        DefaultMQProducer producer = new DefaultMQProducer(flags.text("group", "java-producer"));
        producer.setNamesrvAddr(flags.required("name-server"));
        Thread sender = Thread.currentThread();
        Peer.onStop(() -> {
            stopped = true;
            try {
                sender.join();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        producer.start();
        Peer.line("{\"ready\":{\"client_id\":" + Peer.quote(producer.buildMQClientId()) + "}}");

        long acknowledged = 0;
        long failed = 0;
        long start = System.nanoTime();
        try (BufferedWriter record = open(flags.text("acknowledged", null))) {
            for (long n = 0; n < count && !stopped; n++) {
                if (rate > 0) {
                    LockSupport.parkNanos(start + n * 1_000_000_000L / rate - System.nanoTime());
                }
                String body = body(n, size);
                Message message = new Message(topic, flags.text("tags", null),
                    keys == null ? null : keys + n, body.getBytes(StandardCharsets.UTF_8));
                try {
                    producer.send(message);
                    acknowledged++;
                    if (record != null) {
                        record.write(body);
                        record.newLine();
                        record.flush();
                    }
                } catch (InterruptedException e) {
                    throw e;
                } catch (Exception e) {
                    failed++;
                    System.err.println(n + " " + e);
                }
            }
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        producer.shutdown();
        Peer.line(String.format(Locale.ROOT,
            "{\"summary\":{\"acknowledged\":%d,\"failed\":%d,\"seconds\":%.6f,\"cpu_seconds\":%.3f}}",
            acknowledged, failed, seconds, Peer.cpuSeconds()));
        if (!stopped) {
            // The watcher of standard input is a daemon, but the client may have left threads behind.
            new Thread(() -> System.exit(0), "done").start();
        }
    }

    private static BufferedWriter open(String path) throws IOException {
        return path == null ? null : Files.newBufferedWriter(Path.of(path));
    }

    private static String body(long n, int size) {
        String start = n + ":";
        return size <= start.length() ? start : start + "x".repeat(size - start.length());
    }
}
