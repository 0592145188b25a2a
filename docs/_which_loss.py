"""The decision picture of "Which loss should I use?", drawn from the two questions and their answers."""

from html import escape

# (depth, answer, the name it leads to)
TARGET = (
    (0, "a number", ""),
    (1, "similar errors, no outliers", "NormalLoss"),
    (1, "slightly heavier tails", "LogisticLoss"),
    (1, "heavy tails", "StudentTLoss"),
    (1, "some targets are wrong", "RobustLoss"),
    (1, "some wrong, threshold known", "HuberLoss"),
    (1, "larger errors on one side", "SkewStudentTLoss"),
    (1, "the median is needed", "LaplaceLoss"),
    (1, "a quantile is needed", "AsymmetricLaplaceLoss"),
    (0, "a positive number", ""),
    (1, "errors are ratios", "GammaLoss"),
    (1, "its logarithm is normal", "LogNormalLoss"),
    (0, "a share between 0 and 1", "BetaLoss"),
    (0, "an angle", "VonMisesLoss"),
    (0, "a count", ""),
    (1, "its variance is its mean", "PoissonLoss"),
    (1, "more spread", "NegativeBinomialLoss"),
    (1, "many zeros", "ZeroInflatedPoissonLoss"),
    (1, "many zeros, more spread", "ZeroInflatedNegativeBinomialLoss"),
    (0, "one of several ordered grades", "OrdinalLoss"),
    (0, "one of several classes", "SoftmaxLoss"),
    (0, "yes or no, perhaps several", "BernoulliLoss"),
    (0, "the next token", "TokenTemperature"),
    (0, "several of these at once", "MultiTaskLoss"),
)
NOISE = (
    (0, "nothing: it is one number", "Global()"),
    (0, "the input", "Predicted(width)"),
    (0, "the row: some are wrong", "Data(rows)"),
    (0, "nothing, and it is known", "Fixed(2.0)"),
)
WIDTH, STEP, LEAF, HEADING = 600, 40, 310, 46
SMALL = 26  # more letters than this are set in a smaller type


def tree(question: str, answers: tuple[tuple[int, str, str], ...], top: int) -> tuple[list[str], int]:
    """A question and the answers below it, each joined to the one it refines; and the height at which it ends."""
    drawn = [f'<text x="0" y="{top + 24}" class="question">{escape(question)}</text>']
    y, last = top + HEADING, {}
    for depth, answer, leaf in answers:
        x, middle = 34 + 30 * depth, y + STEP // 2
        start = last.get(depth, top + HEADING - 8 if depth == 0 else y - STEP // 2 + 9)
        drawn.append(f'<path d="M{x - 24} {start} V{middle} H{x - 6}" class="branch"/>')
        drawn.append(f'<text x="{x}" y="{middle + 6}">{escape(answer)}</text>')
        last = {d: at for d, at in last.items() if d < depth} | {depth: middle}
        if leaf:
            drawn.append(f'<a href="api/generated/likely.{leaf.split("(")[0]}.html">')
            drawn.append(f'<rect x="{LEAF}" y="{y + 4}" width="{WIDTH - LEAF - 1}" height="{STEP - 8}" rx="6"/>')
            small = " small" if len(leaf) > SMALL else ""
            drawn.append(f'<text x="{LEAF + 14}" y="{middle + 6}" class="leaf{small}">{escape(leaf)}</text></a>')
        y += STEP
    return drawn, y


def picture() -> str:
    """Both trees as one piece of SVG whose colours are the page's."""
    first, y = tree("1  What is the target?", TARGET, 0)
    second, y = tree("2  What does its noise depend on?", NOISE, y + 26)
    body = "\n".join(first + second)
    return (
        f'<svg class="which-loss" viewBox="0 0 {WIDTH} {y + 4}" role="img" aria-label="A decision tree: what the '
        f'target is leads to a loss, what its noise depends on to a parameter.">\n{body}\n</svg>\n'
    )
