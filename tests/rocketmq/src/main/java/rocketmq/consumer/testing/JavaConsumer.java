package rocketmq.consumer.testing;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * The Java push consumer as a peer of a test: one JSON line per message on standard output.
 *
 * <p>Prints {@code {"ready":{"client_id"}}} once started and {@code {"summary":{...}}} when it ends, which it
 * does cleanly on SIGTERM, when standard input closes, and after {@code --expect} messages.
 */
public final class JavaConsumer {
    private final boolean quiet;
    private final long expect;
    private final long workMs;
    private final AtomicLong failuresLeft;
    private final AtomicLong count = new AtomicLong();
    private final AtomicLong firstNanos = new AtomicLong();
    private volatile long lastNanos;

    private JavaConsumer(boolean quiet, long expect, long workMs, long failFirst) {
        this.quiet = quiet;
        this.expect = expect;
        this.workMs = workMs;
        this.failuresLeft = new AtomicLong(failFirst);
    }

    public static void main(String[] args) throws Exception {
        Flags flags = new Flags(args,
            Set.of("name-server", "group", "subscribe", "client-ip", "instance", "model", "from", "batch",
                "threads", "expect", "work-ms", "fail-first", "route-refresh-ms", "strategy", "sql"),
            Set.of("quiet", "orderly"));
        JavaConsumer peer = new JavaConsumer(
            flags.has("quiet"), flags.number("expect", Long.MAX_VALUE), flags.number("work-ms", 0),
            flags.number("fail-first", 0));

        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(flags.required("group"));
        consumer.setNamesrvAddr(flags.required("name-server"));
        if (flags.has("client-ip")) {
            consumer.setClientIP(flags.text("client-ip", null));
        }
        if (flags.has("instance")) {
            consumer.setInstanceName(flags.text("instance", null));
        }
        consumer.setMessageModel(MessageModel.valueOf(flags.text("model", "clustering").toUpperCase(Locale.ROOT)));
        switch (flags.text("from", "last")) {
            case "first" -> consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            case "last" -> consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
            default -> {
                consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
                consumer.setConsumeTimestamp(flags.text("from", null));
            }
        }
        consumer.setConsumeMessageBatchMaxSize((int) flags.number("batch", 1));
        if (flags.has("threads")) {
            consumer.setConsumeThreadMax((int) flags.number("threads", 20));
            consumer.setConsumeThreadMin((int) flags.number("threads", 20));
        }
        if (flags.has("route-refresh-ms")) {
            consumer.setPollNameServerInterval((int) flags.number("route-refresh-ms", 30_000));
        }
        if (flags.has("strategy")) {
            String topic = flags.required("subscribe").split("=", 2)[0];
            consumer.setAllocateMessageQueueStrategy(Strategies.parse(flags.text("strategy", null), topic));
        }
        for (String subscription : flags.all("subscribe")) {
            int split = subscription.indexOf('=');
            consumer.subscribe(
                split < 0 ? subscription : subscription.substring(0, split),
                split < 0 ? "*" : subscription.substring(split + 1));
        }
        for (String subscription : flags.all("sql")) {
            String[] parts = subscription.split("=", 2);
            consumer.subscribe(parts[0], MessageSelector.bySql(parts[1]));
        }
        if (flags.has("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                peer.accept(messages, context.getMessageQueue().getBrokerName())
                    ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                peer.accept(messages, context.getMessageQueue().getBrokerName())
                    ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }

        Peer.onStop(() -> {
            consumer.shutdown();
            peer.printSummary();
        });
        consumer.start();
        Peer.line("{\"ready\":{\"client_id\":" + Peer.quote(consumer.buildMQClientId()) + "}}");
    }

    /** Works on a batch and notes it; false while failures are still to be made. A failed batch is printed too. */
    private boolean accept(List<MessageExt> messages, String broker) {
        long began = System.currentTimeMillis();
        if (workMs > 0) {
            LockSupport.parkNanos(workMs * 1_000_000);
        }
        long now = System.nanoTime();
        firstNanos.compareAndSet(0, now);
        lastNanos = now;
        if (!quiet) {
            for (MessageExt message : messages) {
                Peer.line(line(message, broker, began));
            }
        }
        boolean fail = failuresLeft.get() > 0 && failuresLeft.getAndDecrement() > 0;
        if (!fail) {
            long before = count.getAndAdd(messages.size());
            if (before < expect && before + messages.size() >= expect) {
                // Not on this thread: the exit waits for the handlers to end.
                new Thread(() -> System.exit(0), "expected").start();
            }
        }
        return !fail;
    }

    private static String line(MessageExt message, String broker, long began) {
        return "{\"topic\":" + Peer.quote(message.getTopic())
            + ",\"broker\":" + Peer.quote(broker)
            + ",\"queue_id\":" + message.getQueueId()
            + ",\"queue_offset\":" + message.getQueueOffset()
            + ",\"msg_id\":" + Peer.quote(message.getMsgId())
            + ",\"reconsume_times\":" + message.getReconsumeTimes()
            + ",\"body\":" + Peer.quote(new String(message.getBody(), StandardCharsets.UTF_8))
            + ",\"began\":" + began
            + ",\"at\":" + System.currentTimeMillis() + "}";
    }

    private void printSummary() {
        double seconds = count.get() == 0 ? 0 : (lastNanos - firstNanos.get()) / 1e9;
        Peer.line(String.format(Locale.ROOT, "{\"summary\":{\"count\":%d,\"seconds\":%.6f,\"cpu_seconds\":%.3f}}",
            count.get(), seconds, Peer.cpuSeconds()));
    }
}
