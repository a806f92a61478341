"""What the user adds to the engines by hand."""

from pd_operator.build.parts.part import Part, Tier


def part(tier: Tier) -> Part:
    """More arguments; they come last."""
    args = tier.deployment.spec.engine.args
    return Part(args=args, pairing={"args": list(args)})
