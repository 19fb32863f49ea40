package rocketmq.consumer.testing;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/** The strategies of the Java client, by the texts that {@code rocketcat --strategy} takes. */
final class Strategies {
    private Strategies() {
    }

    /** {@code topic} is what the queues of {@code config:} belong to that do not say. */
    static AllocateMessageQueueStrategy parse(String text, String topic) {
        if (text.startsWith("near:")) {
            int slash = text.indexOf('/');
            String rule = text.substring("near:".length(), slash < 0 ? text.length() : slash);
            String inner = slash < 0 ? "avg" : text.substring(slash + 1);
            return new AllocateMachineRoomNearby(parse(inner, topic), new Rule(rule));
        }
        int colon = text.indexOf(':');
        String name = colon < 0 ? text : text.substring(0, colon);
        String parameters = colon < 0 ? "" : text.substring(colon + 1);
        switch (name) {
            case "avg":
                return new AllocateMessageQueueAveragely();
            case "circle":
                return new AllocateMessageQueueAveragelyByCircle();
            case "hash":
                return parameters.isEmpty()
                    ? new AllocateMessageQueueConsistentHash()
                    : new AllocateMessageQueueConsistentHash(Integer.parseInt(parameters));
            case "room":
                AllocateMessageQueueByMachineRoom rooms = new AllocateMessageQueueByMachineRoom();
                rooms.setConsumeridcs(new HashSet<>(Arrays.asList(parameters.split(","))));
                return rooms;
            case "config":
                AllocateMessageQueueByConfig config = new AllocateMessageQueueByConfig();
                config.setMessageQueueList(queues(parameters, topic));
                return config;
            default:
                throw new IllegalArgumentException("no strategy of Java: " + text);
        }
    }

    private static List<MessageQueue> queues(String list, String topic) {
        List<MessageQueue> queues = new ArrayList<>();
        for (String entry : list.split(",")) {
            int slash = entry.indexOf('/');
            int colon = entry.lastIndexOf(':');
            queues.add(new MessageQueue(
                slash < 0 ? topic : entry.substring(0, slash),
                entry.substring(slash + 1, colon),
                Integer.parseInt(entry.substring(colon + 1))));
        }
        return queues;
    }

    /** Entries {@code NAME=ROOM}, {@code START*=ROOM}, {@code before=C}, {@code else=ROOM}, {@code else=*}. */
    private static final class Rule implements AllocateMachineRoomNearby.MachineRoomResolver {
        private final List<String[]> named = new ArrayList<>();
        private String before;
        private String otherwise;

        Rule(String text) {
            for (String entry : text.split(",")) {
                String[] pair = entry.split("=", 2);
                switch (pair[0]) {
                    case "before" -> before = pair[1];
                    case "else" -> otherwise = pair[1];
                    default -> named.add(pair);
                }
            }
        }

        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return roomOf(queue.getBrokerName());
        }

        @Override
        public String consumerDeployIn(String clientId) {
            return roomOf(clientId);
        }

        private String roomOf(String name) {
            for (String[] pair : named) {
                boolean matches = pair[0].endsWith("*")
                    ? name.startsWith(pair[0].substring(0, pair[0].length() - 1))
                    : name.equals(pair[0]);
                if (matches) {
                    return pair[1];
                }
            }
            if (before != null && name.contains(before)) {
                return name.substring(0, name.indexOf(before));
            }
            return "*".equals(otherwise) ? name : otherwise;
        }
    }
}
