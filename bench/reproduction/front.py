"""Draws loss against cache for all mechanisms that were trained in the same way with equal parameters: the table of details.md and the picture of
docs/reproduction.md."""
import html
import math

from noise import variance

DESIGNS = {"front": None, "mfa": None, "egmla-gate": {"gate": "egmla:64", "gate-c16": "egmla:16"}}  # designs; names of the models that are used from one, with their names here
CONTEXTS = [1024, 32768]
WIDTH, HEIGHT = 760, 480
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 18, 52
CHARACTER, LINE = 6.6, 12  # of labels


def cache(model, context):
    """Returns the cache elements per token of a sequence of `context` tokens: rows, rings and states."""
    counted = model.get("cache_elements_at")  # absent if every layer has a row per token
    rows = counted[str(context)] if counted else model["cache_elements_per_token"] * context
    return (rows + model.get("state_elements_per_sequence", 0)) / context


def mechanisms(results):
    """Returns [(name, mean loss, its standard deviation over seeds, seeds, caches per token at CONTEXTS, parameters)], the best first."""
    found = []
    for design, names in DESIGNS.items():
        models = results.get(design, {"models": []})["models"]
        for name in names or dict.fromkeys(model["name"] for model in models):
            runs = [model for model in models if model["name"] == name]
            losses = [model["validation_loss"] for model in runs]
            if len(losses) > 1:
                found.append(((names or {}).get(name, name), sum(losses) / len(losses), math.sqrt(variance(losses)), len(losses),
                              [cache(runs[0], each) for each in CONTEXTS], runs[0]["parameters"]))
    return sorted(found, key=lambda each: each[1])


def on_front(found, context):
    """Returns the names of mechanisms without a better one that has at most as large a cache."""
    names, least = set(), math.inf
    for name, _, _, _, caches, _ in found:
        if caches[context] < least:
            names.add(name)
            least = caches[context]
    return names


def elements(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def table(results):
    found = mechanisms(results)
    fronts = [on_front(found, context) for context in range(len(CONTEXTS))]
    lines = ["| | loss | seeds | parameters | cache elements per token at 1k | at 32k |", "| --- | --- | --- | --- | --- | --- |"]
    for name, mean, spread, seeds, caches, parameters in found:
        cells = [f"**{elements(each)}**" if name in fronts[i] else elements(each) for i, each in enumerate(caches)]
        lines.append(f"| `{name}` | {mean:.3f} ± {spread:.3f} | {seeds} | {parameters:,} | {' | '.join(cells)} |")
    return lines


class Picture:
    """A scatter plot whose labels avoid one another."""

    def __init__(self, found):
        caches = [each for row in found for each in row[4]]
        self.x_range = math.log(min(caches) / 1.3), math.log(max(caches) * 1.6)
        errors = [row[2] / math.sqrt(row[3]) for row in found]
        low = min(row[1] - error for row, error in zip(found, errors))
        high = max(row[1] + error for row, error in zip(found, errors))
        self.y_range = low - 0.02, high + 0.02
        self.boxes = []
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
                      f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']

    def x(self, cache):
        low, high = self.x_range
        return LEFT + (math.log(cache) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, loss):
        low, high = self.y_range
        return HEIGHT - BOTTOM - (loss - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def text(self, x, y, said, anchor="start"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#333" stroke="#fff" stroke-width="3" paint-order="stroke">{html.escape(said)}</text>')

    def axes(self):
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        for tick in [each * 10**power for power in range(-1, 5) for each in (1, 2, 5)]:
            if self.x_range[0] <= math.log(tick) <= self.x_range[1]:
                self.parts.append(f'<line x1="{self.x(tick):.1f}" x2="{self.x(tick):.1f}" y1="{TOP}" y2="{bottom}" stroke="#e4e4e4"/>')
                self.text(self.x(tick), bottom + 17, f"{tick:,g}", "middle")
        for step in range(math.ceil(self.y_range[0] * 20), math.floor(self.y_range[1] * 20) + 1):
            self.parts.append(f'<line x1="{LEFT}" x2="{right}" y1="{self.y(step / 20):.1f}" y2="{self.y(step / 20):.1f}" stroke="#e4e4e4"/>')
            self.text(LEFT - 8, self.y(step / 20) + 4, f"{step / 20:.2f}", "end")
        self.text((LEFT + right) / 2, HEIGHT - 12, "cache elements per token", "middle")
        self.parts.append(f'<text transform="translate(16 {(TOP + bottom) / 2:.0f}) rotate(-90)" text-anchor="middle" fill="#333">validation loss, nats</text>')

    def legend(self):
        for row, (fill, dashes, said) in enumerate([("#1f77b4", "", "a text of 32k tokens"), ("#fff", ' stroke-dasharray="4 3"', "a text of 1k tokens")]):
            x, y = WIDTH - RIGHT - 190, TOP + 14 + 18 * row
            self.parts.append(f'<path d="M{x} {y}h36" stroke="#1f77b4"{dashes}/><circle cx="{x + 18}" cy="{y}" r="4" fill="{fill}" stroke="#1f77b4"/>')
            self.text(x + 46, y + 4, said)
            self.boxes.append((x, WIDTH, y - LINE, y + LINE))

    def staircase(self, found, context, dashes):
        corners = sorted((row[4][context], row[1]) for row in found if row[0] in on_front(found, context))
        path = f"M{self.x(corners[0][0]):.1f} {TOP}"
        for cache, loss in corners:
            path += f"H{self.x(cache):.1f}V{self.y(loss):.1f}"
        self.parts.append(f'<path d="{path}H{WIDTH - RIGHT}" fill="none" stroke="#1f77b4"{dashes}/>')

    def points(self, found):
        for _, mean, spread, seeds, caches, _ in found:
            y, error = self.y(mean), spread / math.sqrt(seeds)
            far, near = self.x(caches[-1]), self.x(caches[0])
            self.parts.append(f'<line x1="{far:.1f}" x2="{far:.1f}" y1="{self.y(mean - error):.1f}" y2="{self.y(mean + error):.1f}" stroke="#999"/>')
            if near - far > 1:
                self.parts.append(f'<line x1="{far:.1f}" x2="{near:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#1f77b4"/>'
                                  f'<circle cx="{near:.1f}" cy="{y:.1f}" r="4" fill="#fff" stroke="#1f77b4"/>')
                self.boxes.append((near - 5, near + 5, y - 5, y + 5))
            self.parts.append(f'<circle cx="{far:.1f}" cy="{y:.1f}" r="4" fill="#1f77b4"/>')
            self.boxes.append((far - 5, far + 5, y - 5, y + 5))

    def labels(self, found):
        for name, mean, _, _, caches, _ in reversed(found):  # from the top, so that the label of the lower of two neighbours moves down
            x, y, width = self.x(caches[-1]), self.y(mean), CHARACTER * len(name)
            places = [(left, y + dy) for dy in (0, LINE, -LINE) for left in (x + 8, x - 8 - width)]
            boxes = [(left, left + width, middle - LINE / 2, middle + LINE / 2) for left, middle in places]
            free = [box for box in boxes if box[0] > LEFT and not any(
                box[0] < other[1] and other[0] < box[1] and box[2] < other[3] and other[2] < box[3] for other in self.boxes)]
            box = (free or boxes)[0]
            self.boxes.append(box)
            self.text(box[0], box[3] - 2.5, name)


def picture(results):
    """Returns the SVG file."""
    found = mechanisms(results)
    drawn = Picture(found)
    drawn.axes()
    drawn.legend()
    drawn.staircase(found, 1, "")
    drawn.staircase(found, 0, ' stroke-dasharray="4 3"')
    drawn.points(found)
    drawn.labels(found)
    return "\n".join([*drawn.parts, "</svg>", ""])
