//! Dates as text. The instant is given: nothing here reads a clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds in a day; leap seconds do not exist in Unix time.
const DAY_S: i64 = 86_400;
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
/// vLLM's spelling of a date; here in UTC.
const DATE_FORMAT: &str = "%Y%m%d-%H%M%S";

/// An instant in ISO 8601 with microseconds, as Python's `isoformat` writes it, in UTC.
pub fn timestamp(instant: SystemTime) -> String {
    let since = instant.duration_since(UNIX_EPOCH).unwrap_or_default();
    let whole_s = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let second = strftime("%Y-%m-%dT%H:%M:%S", whole_s).expect("the format has only directives that are known");
    format!("{second}.{:06}+00:00", since.subsec_micros())
}

/// An instant as vLLM writes it, in UTC.
pub fn date(instant: SystemTime) -> String {
    let unix_s = instant.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    strftime(DATE_FORMAT, i64::try_from(unix_s).unwrap_or(i64::MAX)).expect("the format has only directives that are known")
}

/// `strftime` of C's default locale, in UTC, for the directives that templates use. `unix_s` counts seconds from 1970-01-01.
///
/// # Errors
/// The directive, where it is not one of these: `%Y %m %d %b %B %a %A %y %H %I %M %S %p %j %e %F %T %D %%` (and `%-d`, `%-m`,
/// `%-H`, `%-I` without the leading zero).
pub fn strftime(format: &str, unix_s: i64) -> Result<String, String> {
    let date = Date::new(unix_s);
    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let mut directive: String = characters.next().into_iter().collect();
        if directive == "-" {
            directive.extend(characters.next());
        }
        out.push_str(&date.directive(&directive).ok_or_else(|| format!("%{directive}"))?);
    }
    Ok(out)
}

/// The seconds since 1970 of a date and time of day in UTC, as `2026-03-01T12:00:00`; `None` where it is none.
pub fn unix_s_of(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let numbers = |text: &str, mark: char| {
        let parts: Vec<&str> = text.split(mark).collect();
        let parts: [&str; 3] = parts.try_into().ok()?;
        let is_digits = |part: &&str| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        let [one, two, three] =
            if parts.iter().all(is_digits) { parts.map(|part| part.parse::<i64>().ok()) } else { return None };
        Some((one?, two?, three?))
    };
    let ((year, month, day), (hour, minute, second)) = (numbers(date, '-')?, numbers(time, ':')?);
    let is_time = (1..=9999).contains(&year) && hour < 24 && minute < 60 && second < 60;
    // `days_from_civil`, the way back of what `Date::new` goes.
    let year_from_march = if month <= 2 { year - 1 } else { year };
    let year_of_era = year_from_march.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let unix_s = (year_from_march.div_euclid(400) * 146_097 + day_of_era - 719_468) * DAY_S + hour * 3600 + minute * 60 + second;
    // A day that a month does not have would be another one's.
    let back = Date::new(unix_s);
    (is_time && (back.year, back.month, back.day) == (year, month, day)).then_some(unix_s)
}

struct Date {
    year: i64,
    /// From 1.
    month: i64,
    /// From 1.
    day: i64,
    /// From 0.
    day_of_year: i64,
    /// From 0, Sunday.
    weekday: usize,
    second_of_day: i64,
}

impl Date {
    /// Howard Hinnant's `civil_from_days` ("chrono-Compatible Low-Level Date Algorithms"): years begin in March, eras have 400.
    fn new(unix_s: i64) -> Self {
        let days = unix_s.div_euclid(DAY_S);
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_from_march + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let day_of_year = if month <= 2 { day_from_march - 306 } else { day_from_march + 59 + i64::from(is_leap) };
        Self {
            year,
            month,
            day: day_from_march - (153 * month_from_march + 2) / 5 + 1,
            day_of_year,
            weekday: (days + 4).rem_euclid(7) as usize,
            second_of_day: unix_s.rem_euclid(DAY_S),
        }
    }

    fn directive(&self, directive: &str) -> Option<String> {
        let hour = self.second_of_day / 3_600;
        let hour_of_12 = (hour + 11) % 12 + 1;
        let minute = self.second_of_day / 60 % 60;
        let second = self.second_of_day % 60;
        let month_name = MONTHS[self.month as usize - 1];
        Some(match directive {
            "Y" => self.year.to_string(),
            "y" => format!("{:02}", self.year.rem_euclid(100)),
            "m" => format!("{:02}", self.month),
            "-m" => self.month.to_string(),
            "B" => month_name.to_owned(),
            "b" | "h" => month_name[..3].to_owned(),
            "d" => format!("{:02}", self.day),
            "-d" => self.day.to_string(),
            "e" => format!("{:2}", self.day),
            "j" => format!("{:03}", self.day_of_year + 1),
            "A" => DAYS[self.weekday].to_owned(),
            "a" => DAYS[self.weekday][..3].to_owned(),
            "H" => format!("{hour:02}"),
            "-H" => hour.to_string(),
            "I" => format!("{hour_of_12:02}"),
            "-I" => hour_of_12.to_string(),
            "M" => format!("{minute:02}"),
            "S" => format!("{second:02}"),
            "p" => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            "F" => format!("{}-{:02}-{:02}", self.year, self.month, self.day),
            "D" => format!("{:02}/{:02}/{:02}", self.month, self.day, self.year.rem_euclid(100)),
            "T" => format!("{hour:02}:{minute:02}:{second:02}"),
            "%" => "%".to_owned(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Right-hand sides by `datetime.fromtimestamp(s, timezone.utc).strftime(...)` of CPython 3.11.
    #[test]
    fn dates_are_those_of_python() {
        let format = "%Y-%m-%d %b %B %a %A %y %H:%M:%S %I %p %j %e|%-d.%-m.|%F %T %D %%";
        for (unix_s, expected) in [
            (0, "1970-01-01 Jan January Thu Thursday 70 00:00:00 12 AM 001  1|1.1.|1970-01-01 00:00:00 01/01/70 %"),
            (1721952000, "2024-07-26 Jul July Fri Friday 24 00:00:00 12 AM 208 26|26.7.|2024-07-26 00:00:00 07/26/24 %"),
            (1709251199, "2024-02-29 Feb February Thu Thursday 24 23:59:59 11 PM 060 29|29.2.|2024-02-29 23:59:59 02/29/24 %"),
            (951868800, "2000-03-01 Mar March Wed Wednesday 00 00:00:00 12 AM 061  1|1.3.|2000-03-01 00:00:00 03/01/00 %"),
            (4107542399, "2100-02-28 Feb February Sun Sunday 00 23:59:59 11 PM 059 28|28.2.|2100-02-28 23:59:59 02/28/00 %"),
            (-1, "1969-12-31 Dec December Wed Wednesday 69 23:59:59 11 PM 365 31|31.12.|1969-12-31 23:59:59 12/31/69 %"),
        ] {
            assert_eq!(strftime(format, unix_s).unwrap(), expected);
        }
    }

    #[test]
    fn names_an_unknown_directive() {
        assert_eq!(strftime("%d %Q", 0), Err("%Q".to_owned()));
        assert_eq!(strftime("100%", 0), Err("%".to_owned()));
    }
}
