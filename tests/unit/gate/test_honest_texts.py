"""Texts of the kinds that honest people send and that a careless filter stops."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from producer.adapters.gate_model import load_model
from producer.policy.gate import TextGate
from schemas.ticket import Priority, Ticket
from schemas.verdict import Action, Verdict

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)

TRACE = """The nightly export fails since the update:
Exception in thread "main" java.lang.IllegalStateException: Connection pool shut down
\tat org.apache.http.util.Asserts.check(Asserts.java:34)
\tat org.apache.http.impl.conn.PoolingHttpClientConnectionManager.requestConnection(PoolingHttpClient.java:269)
\tat org.apache.http.impl.execchain.MainClientExec.execute(MainClientExec.java:176)
\tat org.apache.http.impl.execchain.ProtocolExec.execute(ProtocolExec.java:186)
\tat org.apache.http.impl.execchain.RetryExec.execute(RetryExec.java:89)
\tat com.acme.export.Job.run(Job.java:57)"""

PYTHON_TRACE = """Traceback (most recent call last):
  File "/srv/app/orders.py", line 88, in post
    return self.client.send(request)
  File "/srv/app/client.py", line 40, in send
    return self.client.send(request)
  File "/srv/app/client.py", line 40, in send
    return self.client.send(request)
RecursionError: maximum recursion depth exceeded"""

LOG = "\n".join(
    f"Dec  1 04:{minute:02d}:17 web01 nginx[2211]: upstream timed out (110: Connection timed out) while reading "
    f"response header from upstream, client: 10.0.0.{minute}, server: shop.example.org"
    for minute in range(30)
)
SAME_LOG = "\n".join(["2026-12-01T04:12:33Z WARN kafka.consumer: Offset commit failed, retrying"] * 12)

TABLE = """SKU      Name        Qty  Price
A-100    Blue mug     2   12.50
A-101    Red mug      1   11.00
A-102    Green mug    4   13.75
A-103    Black mug    1    9.99
-------------------------------
Total                 8   47.24
The green ones are missing."""

CSV = "date,order,amount\n" + "\n".join(
    f"2026-11-{day:02d},ORD{day * 7919 % 10000},{day * 3.5}" for day in range(1, 29)
)

DUMP = (
    '{"orders":['
    + ",".join(
        f'{{"id":{1000 + n},"sku":"AB-{n}","qty":{n % 3 + 1},"price":{n * 3}.99,"status":"pending"}}' for n in range(20)
    )
    + "]}"
)

HONEST = {
    "java trace": TRACE,
    "python trace": PYTHON_TRACE,
    "log": LOG,
    "log of one line": SAME_LOG,
    "order table": TABLE,
    "csv": CSV,
    "json": DUMP,
    "json with a question": f"Why does your API say pending for all of these?\n{DUMP}",
    "angry": "WHERE IS MY ORDER!!!!!!!!!!!!!!!!!!!! I HAVE BEEN WAITING FOR THREE WEEKS!!!!!!!!!!!!!!!!!!!!!!!!!!!!",
    "angry and short": "Hello??????????????? Anybody there????????????????",
    "insisting": "no no no no no no!!! I never ordered this. give me my money back!!!!!!!!!",
    "angry in Chinese": "退款！！！！！！！！！！！！！！！！我要退款！！！！！！！等了三个星期了！！！！！！！",
    "hurried in Chinese": "快点快点快点快点！！！急急急急急",
    "laughing": "哈哈哈哈哈哈哈哈，谢谢客服，问题解决了",
    "said twice": "My invoice from March shows the wrong VAT number, please send a corrected one to accounting. " * 2,
    "mail thread": "Hi team,\n\nPlease see below.\n\nBest regards,\nMarta Nowak\nSenior Buyer | ACME GmbH\n"
    "Tel +49 30 123456 | marta@acme.example | www.acme.example\n\n"
    "> On Tue, Nov 24 2026 Jan wrote:\n> The shipment ABC-123456 is late.",
    "about a scam": "I received an email claiming I won a $1000 gift card from you, asking me to click "
    "http://win-gift.example.top/claim - is this legit or a scam?",
    "sql": "SELECT o.id, o.total FROM orders o JOIN customers c ON c.id = o.customer_id WHERE c.email = 'a@b.c' "
    "AND o.total > 100 ORDER BY o.id; returns nothing, why",
    "yaml": "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: web\n"
    "    image: nginx:1.25\n    ports:\n    - containerPort: 80\npod stays in CrashLoopBackOff",
    "markup": '<script type="text/javascript">javascript:alert(1);</script>',
    "snippet": "for (let i = 0; i < items.length; i++) { total += items[i].price; } // gives NaN, why?",
    "banner": "***************************\n*   PURCHASE ORDER 4471   *\n***************************\nplease confirm",
    "German": "Guten Tag, ich habe meine Rechnung noch nicht erhalten. Können Sie mir diese bitte nochmals zusenden?",
    "Polish": "Dzień dobry, nie mogę się zalogować do swojego konta, po zmianie hasła strona się zawiesza.",
    "Japanese": "注文した商品がまだ届いていません。発送状況を教えていただけますか。よろしくお願いします。",
    "Korean": "주문한 상품이 아직 도착하지 않았습니다. 배송 상태를 확인해 주세요.",
    "Arabic": "مرحبا، لم يصل طلبي حتى الآن، هل يمكنكم التحقق من حالة الشحن من فضلكم؟",
    "Hindi": "नमस्ते, मेरा ऑर्डर अभी तक नहीं आया है, कृपया जांच करें",
    "Thai": "สวัสดีค่ะ สินค้าที่สั่งยังไม่มาถึง รบกวนตรวจสอบให้หน่อยค่ะ",
    "Russian": "Здравствуйте! Не могу войти в личный кабинет, код из СМС не приходит уже второй день.",
    "traditional Chinese": "請問我的訂單什麼時候會送到？付款已經完成了，但是狀態還是顯示待付款。",
    "address in Chinese": "收件人：王小明\n电话：13800138000\n地址：广东省深圳市南山区1栋502\n订单号：202611301234",
}

SHORT = ("????", "......", "111111", "哈哈哈哈", "？？？", "aaaaaaa", "👍👍👍👍", "!!!!!!!", "在吗", "ok")


@pytest.fixture(scope="module")
def gate() -> TextGate:
    return TextGate(load_model())


def judge(gate: TextGate, body: str, number: int = 0) -> Verdict:
    ticket = Ticket(
        id=f"t{number}", tenant="acme", body=body, customer=f"c{number}", priority=Priority.NORMAL, received_at=NOON
    )
    return gate.judge(ticket, NOON)


@pytest.mark.parametrize("body", HONEST.values(), ids=HONEST)
def test_what_honest_people_send_is_accepted(gate: TextGate, body: str) -> None:
    verdict = judge(gate, body)
    assert verdict.action is Action.ACCEPT, verdict.reasons


@pytest.mark.parametrize("body", SHORT)
def test_a_text_under_eight_characters_is_not_judged_by_its_shape(gate: TextGate, body: str) -> None:
    verdict = judge(gate, body)
    assert verdict.action is Action.ACCEPT, verdict.reasons


def test_a_verdict_that_stops_a_ticket_says_why_and_quotes_nothing_of_it(gate: TextGate) -> None:
    verdict = judge(gate, "buy cheap followers now " * 40)
    assert verdict.action is Action.REJECT
    assert verdict.code
    assert verdict.reasons
    assert verdict.scores["repeat_phrase"] > 0.9
    assert not any("followers" in reason for reason in verdict.reasons)
