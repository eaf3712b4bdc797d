"""Tests the page of crosshead serve in a browser: test_page.py PROGRAM MODEL. Without a Chromium it is skipped (77).

With PICTURES=DIRECTORY it leaves pictures of the page there."""
import os
import re
import sys
import unittest

import browsing
import serving

PROGRAM = MODEL = None
WIDE, NARROW = (1280, 800, True), (390, 844, False)
STATE = "document.getElementById('state').textContent"
IDLE = "document.getElementById('stop').disabled"


class Page(unittest.TestCase):
    options = ()

    def setUp(self):
        self.server = serving.Server(PROGRAM, MODEL, *self.options)
        self.addCleanup(self.server.__exit__)
        self.browser = browsing.Browser(browsing.find())
        self.addCleanup(self.browser.__exit__)

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def open(self, width, height, dark):
        self.browser.open(f"http://127.0.0.1:{self.server.port}/", width, height, dark)
        self.browser.wait("document.getElementById('model').textContent !== ''")

    def set(self, **values):
        for name, value in values.items():
            self.browser.value(f"document.getElementById('{name}').value = '{value}'")

    def picture(self, name):
        if "PICTURES" in os.environ:
            self.browser.picture(os.path.join(os.environ["PICTURES"], name + ".png"))

    def fits(self):
        self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), self.browser.value("innerWidth"))

    def luminance(self):
        color = self.browser.value("getComputedStyle(document.body).backgroundColor")
        return sum(map(float, re.findall(r"[\d.]+", color)[:3])) / 3

    def chat(self, name, shape):
        b = self.browser
        self.open(*shape)
        self.set(temperature=0, most=30)
        b.click("document.getElementById('question')")
        b.type("Tell one about a dog.")
        b.press_enter()
        b.wait(f"{IDLE} && document.querySelectorAll('.message.assistant .token').length > 3")
        wanted = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Tell one about a dog."}],
                                                           "temperature": 0, "max_tokens": 30}).choice["message"]["content"]
        self.assertEqual(b.value("document.querySelector('.message.assistant .said').textContent"), wanted)
        self.assertRegex(b.value(STATE), r"^30 tokens, [\d.]+ tokens/s, first after \d+ ms, cut at the limit$")
        b.hover("document.querySelectorAll('.message.assistant .token')[2]")
        b.wait("!document.getElementById('tip').hidden")
        rows = b.value("[...document.querySelectorAll('#tip tr')].map(row => row.textContent)")
        self.assertGreaterEqual(len(rows), 5)
        self.assertTrue(all(re.search(r"\d %$", row) for row in rows), rows)
        self.assertEqual(b.value("document.querySelectorAll('#tip .chosen').length"), 1)
        self.fits()
        self.picture(name)

    def test_chat_on_a_wide_dark_screen(self):
        self.chat("chat-1280-dark", WIDE)
        self.assertLess(self.luminance(), 80)

    def test_chat_on_a_phone(self):
        self.chat("chat-390-light", NARROW)
        self.assertGreater(self.luminance(), 200)

    def test_completion(self):
        b = self.browser
        for name, shape in (("completion-1280-dark", WIDE), ("completion-390-light", NARROW)):
            self.open(*shape)
            self.set(temperature=0, most=20)
            b.click("document.getElementById('tab-text')")
            self.assertTrue(b.value("document.getElementById('chat').hidden"))
            b.click("document.getElementById('run')")
            b.wait(f"{IDLE} && document.querySelectorAll('#result .token').length > 3")
            wanted = self.server.complete(prompt="Once upon a time", temperature=0, max_tokens=20).choice["text"]
            self.assertEqual(b.value("document.getElementById('result').textContent"), "Once upon a time" + wanted)
            self.fits()
            self.picture(name)

    def test_stop_ends_the_request(self):
        b, s = self.browser, self.server
        self.open(*WIDE)
        b.click("document.getElementById('tab-text')")
        # Without end tokens, and with as many choices as keep the server busy, whatever its speed.
        b.value("const fetched = fetch; window.fetch = (path, how) => fetched(path, how.body ? {...how, body: JSON.stringify("
                "{...JSON.parse(how.body), n: 100, max_tokens: 400, ignore_eos: true})} : how); true")
        b.click("document.getElementById('run')")
        b.wait("document.documentElement.scrollHeight > innerHeight + 200")  # the button stays at the lower edge from here on
        self.assertGreater(s.busy(), 0)
        b.click("document.getElementById('stop')")
        b.wait(IDLE)
        self.picture("stopped")
        self.assertRegex(b.value(STATE), r"^\d+ tokens?.*, stopped$")
        s.wait(lambda: s.busy() == 0)
        self.assertEqual(s.metric("crosshead_requests_cancelled_total"), 1)

    def test_what_is_refused_is_said(self):
        b = self.browser
        self.open(*NARROW)
        self.set(temperature=7)
        b.click("document.getElementById('tab-text')")
        b.click("document.getElementById('run')")
        b.wait("!document.getElementById('problem').hidden")
        self.assertIn("'temperature' is 7", b.value("document.getElementById('problem').textContent"))
        self.picture("refused")
        self.browser.events.clear()  # the browser itself notes the status 400


class Key(Page):
    def setUp(self):
        os.environ["CROSSHEAD_API_KEY"] = "a secret"
        self.addCleanup(os.environ.pop, "CROSSHEAD_API_KEY")
        super().setUp()

    def test_a_key_is_needed(self):
        b = self.browser
        b.open(f"http://127.0.0.1:{self.server.port}/", *WIDE)
        b.wait("!document.getElementById('problem').hidden")
        self.assertIn("API key", b.value("document.getElementById('problem').textContent"))
        b.value("const key = document.getElementById('key'); key.value = 'a secret'; key.dispatchEvent(new Event('change')); true")
        b.wait("document.getElementById('model').textContent !== ''")
        self.assertTrue(b.value("document.getElementById('problem').hidden"))
        b.events.clear()  # the browser itself notes the status 401

    test_chat_on_a_wide_dark_screen = test_chat_on_a_phone = test_completion = None
    test_stop_ends_the_request = test_what_is_refused_is_said = None


if __name__ == "__main__":
    if not browsing.find():
        print("skipped: no Chromium; scripts/deps.sh browser installs it")
        sys.exit(77)
    PROGRAM, given = os.path.abspath(sys.argv[1]), sys.argv[2]
    serving.main(sys.modules["__main__"], given, [sys.argv[0], *sys.argv[3:]])
