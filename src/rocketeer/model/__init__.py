"""The values of the domain: messages, queues, topics, groups, routes, subscriptions. Pure; knows no bytes."""
