# SPDX-License-Identifier: GPL-2.0-or-later
"""hub.py WHAT: what students do on JupyterHub, for test_jupyterhub.py, which runs it in the cluster.

spawn: reads {NAME: {FIELD: VALUE}} as JSON; all log in, and all start their servers at once with these values of the
form. Prints {NAME: [STATUS, URL, TEXT]} of the page on which each ends.
terminal: reads {NAME: COMMAND}; prints {NAME: OUTPUT}, of terminals in the notebooks.
kernel NAME: reads Python, and prints what a notebook's kernel prints.
picture NAME PORT FILE: Chromium on that port logs in, starts a server with the form as it stands, and writes a picture
of the page. Prints the page's text, and whether all of it is in the picture."""

import asyncio
import base64
import html
import http.cookiejar
import json
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor

from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

HUB = "http://127.0.0.1:8000"
TOKEN = {"Authorization": "token 0123456789abcdef"}
PATIENCE = 120


class Student:
    def __init__(self, name):
        self.name, self.cookies = name, http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))
        self.open("/hub/login")
        self.open("/hub/login?next=/hub/home", username=name, password="x")

    def open(self, path, **fields):
        if fields:
            # The cookie for the path / is the newest where there are several.
            fields["_xsrf"] = [cookie.value for cookie in self.cookies if cookie.name == "_xsrf"][-1]
        data = urllib.parse.urlencode(fields).encode() if fields else None
        try:
            answer = self.opener.open(HUB + path, data, PATIENCE)
        except urllib.error.HTTPError as error:
            answer = error
        return answer.status, answer.url, plain(answer.read().decode())

    def spawn(self, fields):
        page = self.open("/hub/spawn", **fields)
        end = time.monotonic() + PATIENCE
        while "/hub/spawn-pending/" in page[1] and page[0] == 200:
            assert time.monotonic() < end, page
            time.sleep(1)
            page = self.open(f"/hub/spawn-pending/{self.name}")
        return page


def plain(text):
    text = re.sub(r"(?s)<(script|style|head|nav)\b.*?</\1>", " ", text)
    lines = html.unescape(re.sub(r"<[^>]+>", "", text)).splitlines()
    return "\n".join(line.strip() for line in lines if line.strip())


def spawn():
    wanted = json.load(sys.stdin)
    with ThreadPoolExecutor(len(wanted)) as pool:
        students = list(pool.map(Student, wanted))
        pages = pool.map(lambda student: student.spawn(wanted[student.name]), students)
        print(json.dumps(dict(zip(wanted, pages))))


def create(name, what):
    """A terminal or a kernel in NAME's notebook server; the answer, and the address of its websocket."""
    url = f"{HUB}/user/{name}/api/{what}"
    request = urllib.request.Request(url, b"{}", {**TOKEN, "Content-Type": "application/json"})
    answer = json.load(urllib.request.urlopen(request, timeout=PATIENCE))
    return answer, f"ws{HUB.removeprefix('http')}/user/{name}"


async def connect(url):
    return await websocket_connect(HTTPRequest(url, headers=TOKEN, connect_timeout=PATIENCE), max_message_size=1 << 26)


async def terminal_of(name, command):
    answer, base = await asyncio.to_thread(create, name, "terminals")
    socket, output = await connect(f"{base}/terminals/websocket/{answer['name']}"), ""
    # The terminal echoes the command, and there the quotes stand between the letters.
    await socket.write_message(json.dumps(["stdin", f"{command}; echo O'V'ER\n"]))
    while "OVER" not in output:
        kind, *data = json.loads(await socket.read_message())
        output += data[0] if kind == "stdout" else ""
    return output


async def terminal():
    wanted = json.load(sys.stdin)
    outputs = await asyncio.gather(*(terminal_of(*item) for item in wanted.items()))
    print(json.dumps(dict(zip(wanted, outputs))))


async def kernel(name):
    answer, base = create(name, "kernels")
    socket = await connect(f"{base}/api/kernels/{answer['id']}/channels")
    number = uuid.uuid4().hex
    header = {"msg_id": number, "msg_type": "execute_request", "session": number, "username": name, "version": "5.3"}
    content = {"code": sys.stdin.read(), "silent": False, "store_history": False, "user_expressions": {},
               "allow_stdin": False, "stop_on_error": True}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    await socket.write_message(json.dumps(message))
    while True:
        said = json.loads(await socket.read_message())
        if said["parent_header"].get("msg_id") != number:
            continue
        if said["msg_type"] == "stream":
            print(said["content"]["text"], end="")
        elif said["msg_type"] == "error":
            sys.exit("\n".join(said["content"]["traceback"]))
        elif said["msg_type"] == "status" and said["content"]["execution_state"] == "idle":
            return


class Browser:
    """A page of Chromium, by its debugging protocol."""

    async def open(self, port):
        [page] = [one for one in json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json"))
                  if one["type"] == "page"]
        self.socket, self.count = await connect(page["webSocketDebuggerUrl"]), 0

    async def ask(self, method, **params):
        self.count += 1
        await self.socket.write_message(json.dumps({"id": self.count, "method": method, "params": params}))
        while (answer := json.loads(await self.socket.read_message())).get("id") != self.count:
            pass
        return answer["result"]

    async def value(self, expression):
        answer = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    async def until(self, expression):
        end = time.monotonic() + PATIENCE
        while not await self.value(f"document.readyState == 'complete' && !!({expression})"):
            assert time.monotonic() < end, await self.value("document.documentElement.outerHTML")
            await asyncio.sleep(0.2)


async def picture(name, port, file):
    page = Browser()
    await page.open(port)
    await page.ask("Page.navigate", url=f"{HUB}/hub/login?next=/hub/spawn")
    await page.until("document.querySelector('#username_input')")
    await page.value(f"document.querySelector('#username_input').value = '{name}'")
    await page.value("document.querySelector('#password_input').value = 'x'")
    await page.value("document.querySelector('#login_submit').click()")
    await page.until("document.querySelector('#spawn_form')")
    await page.value("document.querySelector('#spawn_form button').click()")
    await page.until("document.querySelector('.spawn-error-msg')")
    shot = await page.ask("Page.captureScreenshot", format="png")
    with open(file, "wb") as target:
        target.write(base64.b64decode(shot["data"]))
    whole = "(p => p.scrollWidth <= p.clientWidth && p.getBoundingClientRect().bottom <= innerHeight)"
    print(await page.value(f"{whole}(document.querySelector('.spawn-error-msg'))"))
    print(await page.value("document.body.innerText"))


def main(what, *arguments):
    done = {"spawn": spawn, "terminal": terminal, "kernel": kernel, "picture": picture}[what](*arguments)
    if asyncio.iscoroutine(done):
        asyncio.run(asyncio.wait_for(done, PATIENCE))


main(*sys.argv[1:])
