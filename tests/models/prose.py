"""A text of some 600 tokens, too long for one micro-batch, and prompts made of it."""

PROSE = """\
The lighthouse at Carrow Point had not been lit for eleven years when Ada Merrin bought it, with the house beside it and
a boat that did not float. She paid less than the price of a good piano. The people of the village, who had watched the
gulls take over the gallery and the salt take over everything else, supposed that she would leave before the winter, and
one of them, a retired customs officer named Holt, kept a small book in which he took bets on the week.

She did not leave. In October she mended the boat with tar and canvas, and rowed it twice around the rock to see whether
it would hold. In November she carried the broken panes of the lantern down the hundred and twelve steps, one by one, in
a basket lined with straw, and ordered new ones from a factory inland whose owner wrote back to ask if the year was
correct. By the first snow she knew the tides by heart: when the bar was dry, how long it stayed so, and which of the
two currents would carry a log past the window and which would bring it back.

"What is it for?" the children asked her when she came to the shop for oil, sugar and candles. "There are no ships."
"There are always ships," she said. "You only see the ones that arrive." This was repeated in the village for some days,
first as a joke, then as a question, and in the end as something that everybody had always said.

On the night of the ninth of January the wind went round to the north, and the sea rose over the lower road. Holt, who
could not sleep, stood at his window with a cup of tea and looked out, as he had every night since the service let him
go, at the place where the light had been. At ten minutes past two it came on. It was not the old light, which had been
white and turned slowly, but a smaller one, yellow, that hardly reached beyond the reef. He counted the seconds between
one flash and the next: five, and then five, and then five again. He put down the cup, took the small book from the
table, and wrote under the date, in his careful hand, that all bets were lost.
"""


def excerpt(start: int, n_chars: int) -> str:
    """That many characters of the text from `start` on, which begins anew after its end."""
    return (PROSE * (2 + (start + n_chars) // len(PROSE)))[start : start + n_chars]
