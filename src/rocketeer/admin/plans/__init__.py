"""Admin tasks as generators that ask (see `client.plans.effects`): pure, one module a subject."""
