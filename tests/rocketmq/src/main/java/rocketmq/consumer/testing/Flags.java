package rocketmq.consumer.testing;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Command line of the form {@code --name value} and {@code --switch}; an unknown name ends the program. */
final class Flags {
    private final Map<String, List<String>> values = new HashMap<>();

    Flags(String[] args, Set<String> names, Set<String> switches) {
        for (int i = 0; i < args.length; i++) {
            String name = args[i].startsWith("--") ? args[i].substring(2) : "";
            if (switches.contains(name)) {
                values.put(name, List.of("true"));
            } else if (names.contains(name) && i + 1 < args.length) {
                values.computeIfAbsent(name, ignored -> new ArrayList<>()).add(args[++i]);
            } else {
                System.err.println("unknown or incomplete: " + args[i] + "; names: " + names + ", switches: " + switches);
                System.exit(2);
            }
        }
    }

    boolean has(String name) {
        return values.containsKey(name);
    }

    List<String> all(String name) {
        return values.getOrDefault(name, List.of());
    }

    String text(String name, String otherwise) {
        List<String> given = all(name);
        return given.isEmpty() ? otherwise : given.get(given.size() - 1);
    }

    String required(String name) {
        if (!has(name)) {
            System.err.println("--" + name + " is required");
            System.exit(2);
        }
        return text(name, null);
    }

    long number(String name, long otherwise) {
        return has(name) ? Long.parseLong(text(name, null)) : otherwise;
    }
}
