// Bodies of System.Messaging's formatters, for the tests. "write" prints the bodies of all kinds of values, "read" shows
// the values of bodies that come on standard input. A line has a formatter, a kind, the BodyType and the body. "headers"
// reads lists of headers as NServiceBus keeps them, and writes them again.
using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Messaging;
using System.Xml.Serialization;
using Mono.Messaging;
using Message = System.Messaging.Message;

public class HeaderInfo
{
    public string Key { get; set; }
    public string Value { get; set; }
}

[Serializable]
public class Line
{
    public string Article { get; set; }
    public int Pieces;
}

[Serializable]
public class Order
{
    public int Id;
    public string Customer { get; set; }
    public decimal Total;
    public bool Paid;
    public DateTime Placed;
    public List<string> Tags;
    public List<Line> Lines;
    public string Remark;
}

[Serializable]
public struct Point
{
    public int X, Y;
}

// Mono's Message asks for a provider of queues, of which it knows one by name; messages alone need none.
namespace Mono.Messaging.RabbitMQ
{
    public class RabbitMQMessagingProvider : IMessagingProvider
    {
        public IMessage CreateMessage() { return new MessageBase(); }
        public bool Exists(QueueReference queue) { throw new NotSupportedException(); }
        public IMessageQueue CreateMessageQueue(QueueReference queue, bool transactional) { throw new NotSupportedException(); }
        public IMessageQueue GetMessageQueue(QueueReference queue) { throw new NotSupportedException(); }
        public IMessageQueueTransaction CreateMessageQueueTransaction() { throw new NotSupportedException(); }
        public void DeleteQueue(QueueReference queue) { throw new NotSupportedException(); }
        public IMessageQueue[] GetPublicQueues() { throw new NotSupportedException(); }
    }
}

public static class Bodies
{
    static readonly DateTime Moment = new DateTime(2020, 2, 29, 13, 14, 15, 678);

    static Order Sample()
    {
        return new Order
        {
            Id = 7, Customer = "Müller & <Söhne>", Total = 1234.50m, Paid = true,
            Placed = DateTime.SpecifyKind(Moment, DateTimeKind.Utc), Tags = new List<string> { "new", "big" },
            Lines = new List<Line> { new Line { Article = "tea", Pieces = 2 }, new Line { Article = "milk", Pieces = 1 } },
        };
    }

    static Dictionary<string, object> Both()
    {
        return new Dictionary<string, object>
        {
            { "text", "hé €𝄞 <&>\"" }, { "empty-text", "" }, { "return", "a\r\nb\rc\td" }, { "long-text", new string('x', 20000) },
            { "true", true }, { "false", false }, { "byte", (byte)200 }, { "sbyte", (sbyte)-100 },
            { "int16", (short)-30000 }, { "uint16", (ushort)60000 }, { "int32", -2000000000 },
            { "uint32", 4000000000u }, { "int64", -9000000000000000000L }, { "uint64", 18000000000000000000ul },
            { "single", 1.5f }, { "double", -2.25e300 }, { "decimal", 12.3400m }, { "small-decimal", -0.0000000000000000000000000001m },
            { "large-decimal", decimal.MaxValue }, { "utc", DateTime.SpecifyKind(Moment, DateTimeKind.Utc) },
            { "date", Moment }, { "first-date", DateTime.MinValue }, { "char", 'é' },
            { "guid", new Guid("01234567-89ab-cdef-0123-456789abcdef") }, { "bytes", new byte[] { 0, 1, 254, 255 } },
            { "ints", new[] { 1, -2, 3 } }, { "doubles", new[] { 0.5, -0.25 } }, { "texts", new[] { "a", "b", "" } },
            { "bools", new[] { true, false } }, { "text-list", new List<string> { "x", "y" } },
            { "int-list", new List<int> { 4, 5, 6 } }, { "empty-list", new List<string>() },
            { "mixed-list", new ArrayList { 1, "two", 3.5, true, null } }, { "nulls", new object[] { null, null, "end", null } },
            { "object", Sample() },
        };
    }

    static Dictionary<string, object> BinaryOnly()
    {
        var shared = new List<int> { 1 };
        return new Dictionary<string, object>
        {
            { "duration", TimeSpan.FromSeconds(90.5) }, { "negative-duration", TimeSpan.FromDays(-3) },
            { "enumeration", DayOfWeek.Friday }, { "stream", new MemoryStream(new byte[] { 9, 8, 7 }) },
            { "hashtable", new Hashtable { { "a", 1 }, { "b", "two" }, { "c", null } } },
            { "dictionary", new Dictionary<string, int> { { "one", 1 }, { "two", 2 } } },
            { "number-keys", new Dictionary<int, string> { { 1, "one" }, { 2, "two" } } },
            { "empty-dictionary", new Dictionary<string, string>() },
            { "nested", new Dictionary<string, object> { { "list", new List<object> { 1, new Hashtable { { "k", "v" } } } } } },
            { "matrix", new[,] { { 1, 2, 3 }, { 4, 5, 6 } } }, { "jagged", new[] { new[] { 1 }, new[] { 2, 3 } } },
            { "set", new HashSet<string> { "s" } }, { "dates", new[] { Moment, DateTime.SpecifyKind(Moment, DateTimeKind.Utc) } },
            { "durations", new[] { TimeSpan.FromSeconds(1) } }, { "decimals", new[] { 1.5m, -2.25m } },
            { "chars", new[] { 'a', 'é', '€' } }, { "struct", new Point { X = 1, Y = -2 } },
            { "structs", new[] { new Point { X = 1 }, new Point { Y = 2 } } }, { "shared", new[] { shared, shared } },
            { "many-nulls", new object[300] }, { "guids", new[] { Guid.Empty } },
            { "boxes", new object[] { (byte)1, 'c', 2.5m, Moment, TimeSpan.Zero, 7L } },
        };
    }

    static Dictionary<string, object> XmlOnly()
    {
        return new Dictionary<string, object>
        {
            { "objects", new List<Line> { new Line { Article = "tea", Pieces = 2 }, new Line { Article = "", Pieces = 0 } } },
            { "infinity", double.PositiveInfinity }, { "enumeration", DayOfWeek.Friday },
        };
    }

    static string Show(object value)
    {
        if (value == null) return "null";
        if (value is string || value is char) return "'" + value + "'";
        if (value is bool) return (bool)value ? "true" : "false";
        if (value is Enum) return Convert.ToInt32(value).ToString();
        if (value is double || value is float) return ((IFormattable)value).ToString("R", CultureInfo.InvariantCulture);
        if (value is decimal) return ((decimal)value / 1.0000000000000000000000000000m).ToString(CultureInfo.InvariantCulture);
        if (value is DateTime) return ((DateTime)value).Ticks + (((DateTime)value).Kind == DateTimeKind.Utc ? " UTC" : "");
        if (value is TimeSpan) return ((TimeSpan)value).Ticks + " ticks";
        if (value is byte[]) return BitConverter.ToString((byte[])value);
        if (value is MemoryStream) return BitConverter.ToString(((MemoryStream)value).ToArray());
        if (value is IDictionary)
        {
            var pairs = ((IDictionary)value).Keys.Cast<object>().Where(key => !"$type".Equals(key));
            return "{" + string.Join(",", pairs.Select(key => Name(key) + "=" + Show(((IDictionary)value)[key])).OrderBy(text => text, StringComparer.Ordinal)) + "}";
        }
        var array = value as Array;
        if (array != null && array.Rank == 2)
        {
            var rows = Enumerable.Range(0, array.GetLength(0));
            return "[" + string.Join(",", rows.Select(row => "[" + string.Join(",", Enumerable.Range(0, array.GetLength(1)).Select(column => Show(array.GetValue(row, column)))) + "]")) + "]";
        }
        if (value is IEnumerable) return "[" + string.Join(",", ((IEnumerable)value).Cast<object>().Select(Show)) + "]";
        if (value is Order || value is Line || value is Point)
        {
            var fields = value.GetType().GetFields().Select(each => each.Name + "=" + Show(each.GetValue(value)));
            var properties = value.GetType().GetProperties().Select(each => each.Name + "=" + Show(each.GetValue(value, null)));
            return "{" + string.Join(",", fields.Concat(properties).OrderBy(text => text, StringComparer.Ordinal)) + "}";
        }
        return Convert.ToString(value, CultureInfo.InvariantCulture);
    }

    static string Name(object key) { return key is string ? (string)key : Show(key); }

    static IEnumerable<KeyValuePair<string, object>> Kinds(string formatter)
    {
        return Both().Concat(formatter == "xml" ? XmlOnly() : BinaryOnly());
    }

    static IMessageFormatter Formatter(string name, Type type)
    {
        return name == "xml" ? (IMessageFormatter)new XmlMessageFormatter(new[] { type }) : new BinaryMessageFormatter();
    }

    // Mono has no ActiveXMessageFormatter. These are .NET's own conversions to the forms of OLE and of System.Messaging.
    static void WriteAutomation(string kind, int type, byte[] body)
    {
        Console.WriteLine("activex {0} {1} {2}", kind, type, Convert.ToBase64String(body));
    }

    static void WriteAutomation()
    {
        var bits = decimal.GetBits(-12345678901234567890.123456789m);
        var dec = BitConverter.GetBytes((short)0).Concat(BitConverter.GetBytes((short)(bits[3] >> 16)))
            .Concat(BitConverter.GetBytes(bits[2])).Concat(BitConverter.GetBytes(bits[0])).Concat(BitConverter.GetBytes(bits[1]));
        WriteAutomation("net-bool", 11, new byte[] { 255 });
        WriteAutomation("net-date", 7, BitConverter.GetBytes(Moment.Ticks));
        WriteAutomation("net-bytes", 0x1011, new byte[] { 1, 2 });
        WriteAutomation("text", 31, System.Text.Encoding.Unicode.GetBytes("hé €𝄞"));
        WriteAutomation("guid", 72, new Guid("01234567-89ab-cdef-0123-456789abcdef").ToByteArray());
        WriteAutomation("currency", 6, BitConverter.GetBytes(decimal.ToOACurrency(-12.3456m)));
        WriteAutomation("int32", 3, BitConverter.GetBytes(-5));
        WriteAutomation("int64", 20, BitConverter.GetBytes(-5000000000L));
        WriteAutomation("double", 5, BitConverter.GetBytes(2.5));
        WriteAutomation("decimal", 14, dec.ToArray());
        WriteAutomation("com-bool", 11, BitConverter.GetBytes((short)-1));
        WriteAutomation("com-date", 7, BitConverter.GetBytes(Moment.ToOADate()));
        WriteAutomation("com-old-date", 7, BitConverter.GetBytes(new DateTime(1815, 12, 10, 18, 0, 0).ToOADate()));
        WriteAutomation("com-text", 8, System.Text.Encoding.Unicode.GetBytes("bstr"));
        WriteAutomation("com-byte-text", 30, System.Text.Encoding.ASCII.GetBytes("lpstr"));
        WriteAutomation("com-file-time", 64, BitConverter.GetBytes(DateTime.SpecifyKind(Moment, DateTimeKind.Utc).ToFileTimeUtc()));
        WriteAutomation("com-single", 4, BitConverter.GetBytes(1.5f));
        WriteAutomation("com-int16", 2, BitConverter.GetBytes((short)-2));
        WriteAutomation("com-uint16", 18, BitConverter.GetBytes((ushort)65535));
        WriteAutomation("com-uint32", 19, BitConverter.GetBytes(uint.MaxValue));
        WriteAutomation("com-uint64", 21, BitConverter.GetBytes(ulong.MaxValue));
        WriteAutomation("com-stream", 68, new byte[] { 1, 0 });
    }

    static void Write()
    {
        WriteAutomation();
        foreach (var formatter in new[] { "xml", "binary" })
            foreach (var kind in Kinds(formatter))
            {
                var message = new Message();
                Formatter(formatter, kind.Value.GetType()).Write(message, kind.Value);
                var body = new MemoryStream();
                message.BodyStream.Position = 0;
                message.BodyStream.CopyTo(body);
                Console.WriteLine("{0} {1} {2} {3}", formatter, kind.Key, message.BodyType, Convert.ToBase64String(body.ToArray()));
            }
    }

    static void Read()
    {
        string line;
        while ((line = Console.ReadLine()) != null)
        {
            var words = line.Split(' ');
            var own = Kinds(words[0]).First(kind => kind.Key == words[1]).Value;
            var found = "";
            // Python has one kind of whole number and one of fractions, so these may come in another size.
            foreach (var type in new[] { own.GetType(), typeof(int), typeof(long), typeof(double), typeof(object[]) })
            {
                try
                {
                    var message = new Message { BodyStream = new MemoryStream(Convert.FromBase64String(words[3])), BodyType = int.Parse(words[2]) };
                    found = Show(Formatter(words[0], type).Read(message));
                    break;
                }
                catch (Exception error) { found += error.Message.Split(new[] { (char)10, (char)13 })[0] + " "; }
            }
            Console.WriteLine("read\t{0} {1}\t{2}\t{3}", words[0], words[1], OneLine(Show(own)), OneLine(found));
        }
    }

    static string OneLine(string text) { return text.Replace("\r", "\\r").Replace("\n", "\\n").Replace("\t", "\\t"); }

    static void Headers()
    {
        var serializer = new XmlSerializer(typeof(List<HeaderInfo>));
        string line;
        while ((line = Console.ReadLine()) != null)
        {
            var list = serializer.Deserialize(new MemoryStream(Convert.FromBase64String(line)));
            var again = new MemoryStream();
            serializer.Serialize(again, list);
            Console.WriteLine(Convert.ToBase64String(again.ToArray()));
        }
    }

    public static void Main(string[] arguments)
    {
        AppDomain.CurrentDomain.AssemblyResolve += (sender, wanted) => typeof(Bodies).Assembly;
        Console.OutputEncoding = Console.InputEncoding = new System.Text.UTF8Encoding(false);
        if (arguments[0] == "write") Write(); else if (arguments[0] == "headers") Headers(); else Read();
    }
}
