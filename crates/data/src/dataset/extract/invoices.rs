//! Documents about invoices.

use serde_json::{Value, json};

use super::draws::{Amount, CURRENCIES, Draws};
use super::words::{CITIES, COMPANY_KINDS, COMPANY_NAMES, FAMILY_NAMES, GIVEN_NAMES, GOODS};
use super::{Difficulty, Document};

pub(super) fn sought(difficulty: Difficulty) -> &'static str {
    match difficulty {
        Difficulty::Easy => "the invoice number, the customer and the total amount",
        Difficulty::Medium => {
            "the invoice number, the seller, the name and the city of the customer, the day of issue, \
             the day on which the payment is due, the currency (as a code of three letters), the total \
             amount, and whether the invoice is paid"
        }
        Difficulty::Hard => {
            "the invoice number, the seller, the name and the city of the customer, the name and the \
             e-mail address of the contact person, the day of issue, the day on which the payment is \
             due, the number of the purchase order, the currency (as a code of three letters), the \
             items in the order of the text (each with description, quantity and unit price), the \
             discount in percent, the shipping (method and cost), the total amount, and whether the \
             invoice is paid"
        }
    }
}

pub(super) fn schema(difficulty: Difficulty) -> Value {
    let text = || json!({"type": "string"});
    let name = || json!({"type": "string", "x-sobench-score": "case_insensitive"});
    let date = || json!({"type": "string", "format": "date", "x-sobench-score": "date"});
    let due = || json!({"type": ["string", "null"], "format": "date", "x-sobench-score": "date"});
    let amount = || json!({"type": "number", "x-sobench-score": {"number": 0.005}});
    let currency = || json!({"enum": CURRENCIES.map(|currency| currency.code)});
    let customer = || super::object(&[("name", name()), ("city", name())], &[]);
    match difficulty {
        Difficulty::Easy => super::object(
            &[
                ("invoice_number", text()),
                ("customer", name()),
                ("total", amount()),
            ],
            &[],
        ),
        Difficulty::Medium => super::object(
            &[
                ("invoice_number", text()),
                ("seller", name()),
                ("customer", customer()),
                ("issued_on", date()),
                ("due_on", due()),
                ("currency", currency()),
                ("total", amount()),
                ("paid", json!({"type": "boolean"})),
            ],
            &[],
        ),
        Difficulty::Hard => {
            let item = super::object(
                &[
                    ("description", name()),
                    ("quantity", json!({"type": "integer", "minimum": 1})),
                    ("unit_price", amount()),
                ],
                &[],
            );
            let shipping = super::object(
                &[("method", json!({"enum": SHIPPING})), ("cost", amount())],
                &[],
            );
            super::object(
                &[
                    ("invoice_number", text()),
                    ("seller", name()),
                    ("customer", customer()),
                    (
                        "contact",
                        super::object(&[("name", name()), ("email", text())], &[]),
                    ),
                    ("issued_on", date()),
                    ("due_on", due()),
                    ("purchase_order", json!({"type": ["string", "null"]})),
                    ("currency", currency()),
                    (
                        "items",
                        json!({"type": "array", "items": item, "minItems": 1}),
                    ),
                    (
                        "discount_percent",
                        json!({"type": "integer", "minimum": 1, "maximum": 100}),
                    ),
                    ("shipping", json!({"anyOf": [shipping, {"type": "null"}]})),
                    ("total", amount()),
                    ("paid", json!({"type": "boolean"})),
                ],
                &["discount_percent"],
            )
        }
    }
}

const SHIPPING: [&str; 3] = ["courier", "post", "freight"];

const CLOSINGS: [&str; 8] = [
    "Thank you for the order.",
    "Please name the number of the invoice with the payment.",
    "We look forward to the next order.",
    "Questions are welcome at any time.",
    "The goods stay our property until they are paid.",
    "This message was written by hand.",
    "A copy is in the archive.",
    "Please keep this message for your records.",
];

fn company(draws: &mut Draws) -> String {
    format!(
        "{} {}",
        draws.pick(&COMPANY_NAMES),
        draws.pick(&COMPANY_KINDS)
    )
}

/// An invoice number in one of several forms.
fn number(draws: &mut Draws) -> String {
    let serial = draws.between(1000, 99_999);
    match draws.between(0, 3) {
        0 => format!("INV-{serial}"),
        1 => format!("R{}/{serial}", draws.between(21, 26)),
        2 => format!("{}-{serial}", draws.between(2021, 2026)),
        _ => format!("F{serial}"),
    }
}

pub(super) fn document(difficulty: Difficulty, draws: &mut Draws) -> Document {
    let (number, customer) = (number(draws), company(draws));
    let currency = draws.pick(&CURRENCIES);
    let amount = |cents| Amount { cents, currency };
    if difficulty == Difficulty::Easy {
        let total = amount(draws.between(1_000, 900_000));
        let opening = match draws.between(0, 4) {
            0 => format!("Invoice {number} is for {customer}."),
            1 => format!("We have sent invoice {number} to {customer}."),
            2 => format!("{customer} gets invoice {number}."),
            3 => format!("The customer {customer} received the invoice with the number {number}."),
            _ => format!("Here is invoice {number}. The customer is {customer}."),
        };
        let spelled = draws.spelled_amount(total);
        let sum = match draws.between(0, 3) {
            0 => format!("The total is {spelled}."),
            1 => format!("It comes to {spelled} in total."),
            2 => format!("The total amount to pay is {spelled}."),
            _ => format!("In total, {spelled} must be paid."),
        };
        let mut sentences = vec![opening, sum];
        if draws.is_likely(60) {
            sentences.push(draws.pick(&CLOSINGS).to_owned());
        }
        return Document {
            text: sentences.join(" "),
            reference: json!({
                "invoice_number": number, "customer": customer, "total": total.value(),
            }),
        };
    }

    let mut seller = company(draws);
    while seller == customer {
        seller = company(draws);
    }
    let city = draws.pick(&CITIES);
    let issued = draws.date(2021, 2026);
    let spelled_issue = draws.spelled(issued);
    let opening = match draws.between(0, 2) {
        0 => {
            format!("On {spelled_issue}, {seller} issued invoice {number} to {customer} in {city}.")
        }
        1 => format!(
            "{seller} has an invoice for {customer}, which is in {city}. It has the number {number} \
             and was issued on {spelled_issue}."
        ),
        _ => format!(
            "Invoice {number} of {seller} was issued on {spelled_issue}. The customer is {customer}, \
             {city}."
        ),
    };
    let mut facts = Vec::new();
    let due = draws.is_likely(65).then(|| {
        let (months, day) = (draws.between(1, 3), draws.between(1, 28));
        issued.later(months, day)
    });
    if let Some(due) = due {
        let spelled = draws.spelled(due);
        facts.push(match draws.between(0, 2) {
            0 => format!("The payment is due on {spelled}."),
            1 => format!("The customer has to pay by {spelled}."),
            _ => format!("The due date of the payment is {spelled}."),
        });
    }
    let is_paid = draws.is_likely(50);
    facts.push(
        match (is_paid, draws.between(0, 1)) {
            (true, 0) => "The invoice has been paid.",
            (true, _) => "The customer has paid the invoice.",
            (false, 0) => "The invoice has not been paid yet.",
            (false, _) => "The customer has not paid the invoice so far.",
        }
        .to_owned(),
    );
    if difficulty == Difficulty::Medium {
        let total = amount(draws.between(1_000, 2_000_000));
        let spelled = draws.spelled_amount(total);
        facts.push(match draws.between(0, 1) {
            0 => format!("The total amount is {spelled}."),
            _ => format!("In total, the invoice comes to {spelled}."),
        });
        if draws.is_likely(50) {
            facts.push(draws.pick(&CLOSINGS).to_owned());
        }
        draws.shuffle(&mut facts);
        return Document {
            text: format!("{opening} {}", facts.join(" ")),
            reference: json!({
                "invoice_number": number,
                "seller": seller,
                "customer": {"name": customer, "city": city},
                "issued_on": issued.iso(),
                "due_on": due.map(super::draws::Date::iso),
                "currency": currency.code,
                "total": total.value(),
                "paid": is_paid,
            }),
        };
    }

    let (given, family) = (draws.pick(&GIVEN_NAMES), draws.pick(&FAMILY_NAMES));
    let email = format!(
        "{}.{}@{}.example",
        given.to_lowercase(),
        family.to_lowercase(),
        customer
            .split(' ')
            .next()
            .unwrap_or_default()
            .to_lowercase()
    );
    facts.push(match draws.between(0, 1) {
        0 => format!("The contact person is {given} {family} ({email})."),
        _ => format!("Please write to {given} {family}, the contact person, at {email}."),
    });
    let order = draws
        .is_likely(55)
        .then(|| format!("PO-{}", draws.between(10_000, 99_999)));
    if let Some(order) = &order {
        facts.push(format!("It refers to the purchase order {order}."));
    }
    let count = draws.between(2, 4) as usize;
    let mut subtotal = 0;
    let (mut listed, mut items) = (Vec::new(), Vec::new());
    for description in draws.sample(&GOODS, count) {
        let quantity = draws.between(1, 12);
        // A multiple of 20 cents, so that discounts are whole cents.
        let price = amount(20 * draws.between(10, 4_000));
        subtotal += quantity * price.cents;
        let spelled = draws.spelled_amount(price);
        listed.push(format!("{quantity} x {description} at {spelled} each"));
        items.push(json!({
            "description": description, "quantity": quantity, "unit_price": price.value(),
        }));
    }
    facts.push(format!("It lists these items: {}.", listed.join("; ")));
    let discount = draws.is_likely(50).then(|| draws.pick(&[5, 10, 15, 20]));
    if let Some(percent) = discount {
        facts.push(format!(
            "There is a discount of {percent} percent on the items."
        ));
    }
    let shipping = draws.is_likely(60).then(|| {
        let cost = amount(5 * draws.between(100, 2_000));
        (draws.pick(&SHIPPING), cost)
    });
    if let Some((method, cost)) = shipping {
        let spelled = draws.spelled_amount(cost);
        facts.push(format!("Shipping by {method} costs {spelled}."));
    }
    let cost_cents = shipping.map_or(0, |(_, cost)| cost.cents);
    let total = amount(subtotal * (100 - discount.unwrap_or(0)) / 100 + cost_cents);
    let spelled = draws.spelled_amount(total);
    facts.push(format!("The total amount of the invoice is {spelled}."));
    if draws.is_likely(60) {
        let (other, day) = (draws.between(100, 999), draws.date(2018, 2020));
        let spelled = draws.spelled(day);
        facts.push(format!(
            "An earlier invoice, A-{other} of {spelled}, is not part of this one."
        ));
    }
    draws.shuffle(&mut facts);
    let mut reference = json!({
        "invoice_number": number,
        "seller": seller,
        "customer": {"name": customer, "city": city},
        "contact": {"name": format!("{given} {family}"), "email": email},
        "issued_on": issued.iso(),
        "due_on": due.map(super::draws::Date::iso),
        "purchase_order": order,
        "currency": currency.code,
        "items": items,
        "discount_percent": discount,
        "shipping": shipping.map(|(method, cost)| json!({"method": method, "cost": cost.value()})),
        "total": total.value(),
        "paid": is_paid,
    });
    super::drop_absent(&mut reference, "discount_percent");
    Document {
        text: format!("{opening} {}", facts.join(" ")),
        reference,
    }
}
